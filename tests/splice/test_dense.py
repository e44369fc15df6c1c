# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code without a byte to spare: nearly every point gets a splice, and the splices hold."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.analysis.model import Function
from gilk.arch import asm
from gilk.splice.allocator import PAGE, Arena, Occupied, PunPages
from gilk.splice.instrument import Stamp
from gilk.splice.plan import FunctionPlan, Refusal, Want
from gilk.splice.planner import PatchContext, forget, plan
from gilk.splice.policy import BESIDE, PROCESS, Policy
from gilk.splice.template import PlanTemplate, outcome_of
from gilk.splice.template_build import Probes, build_template, timings
from gilk.targets.image import pretend_loaded
from gilk.targets.templates import Shape, reference_ground
from tests.programs.build import NO_ROOM, build, compile_text
from tests.splice.holds import analysed, violations

SHAPE = Shape(4096, ((1 << 20, 1 << 20),) * 4)
_ARENA, _GAP = 64 << 20, 1 << 20
DENSE = ("default", "O0", "O1", "Os")
PROGRAMS = [
    *((name, variant) for name in ("work", "calls", "recursion", "interp", "threads", "unwind")
      for variant in ("O0", "O1", "Os")),
    ("shortblocks", "default"), ("tailcall", "default"), ("marked", "default"), ("sigpc", "O1"),
]  # fmt: skip

#: As gcc -O0 lays it out: `pop %rbp; ret` with nothing behind.
SLEEPS = """
#include <stdlib.h>
#include <unistd.h>
void *mem_alloc(void) { return malloc(16); }
void bar(void) { usleep(1); }
void foo(void) { mem_alloc(); bar(); }
int main(void) { foo(); return 0; }
"""

#: 0x7e808948 is nearly 2 GiB ahead, and the arena lies behind.
FAR = """
void alone(void), other(void);
__asm__(".text\\n.p2align 4\\n.type alone, @function\\nalone: ret\\n.size alone, .-alone\\n"
	".type other, @function\\nother: mov %rax, 0x7e(%rax)\\n ret\\n.size other, .-other\\n.p2align 4\\n");
int main(void) { alone(); return (long)other == 0; }
"""

PADDED = """
long foo(long), bar(int);
__asm__(".text\\n.p2align 4\\n"
	".type foo, @function\\nfoo: mov %rdi, %rax\\n ret\\n.size foo, .-foo\\n.p2align 4\\n"
	".type bar, @function\\nbar: inc %edi\\n1: dec %edi\\n jne 1b\\n 2: inc %esi\\n jne 2b\\n xchg %eax, %edx\\n ret\\n"
	".size bar, .-bar\\n"
	".type baz, @function\\nbaz: xor %eax, %eax\\n ret\\n.size baz, .-baz\\n");
int main(void) { return foo(0) + bar(1) != 0; }
"""

Asked = list[tuple[Function, list[Want]]]
Made = list[tuple[list[Want], FunctionPlan]]


def ground_of(path: Path | str, policy: Policy = PROCESS) -> PatchContext:
    """A ground as in a live process: an arena right below the image, everything else free."""
    ground = pretend_loaded(analysed(str(path)))
    low = min(s.address for s in ground.analysis.image.segments) + ground.bias & -PAGE
    base = low - _ARENA - _GAP if low > 2 * _ARENA else ground.arena.base
    ground.arena = Arena(base, _ARENA, 0, PAGE)
    ground.host = replace(ground.host, key=base - PAGE, claim=base, base=base, thunk=base, thunk_vector=base)
    high = max(s.address + s.size for s in ground.analysis.image.segments) + ground.bias + PAGE & -PAGE
    taken = tuple(sorted(((low, high), (base - PAGE, base + _ARENA))))
    ground.puns = PunPages(Occupied(taken), _ARENA, 1 << 20)
    ground.policy = policy
    return ground


def wants_of(probes: Iterable[Probes]) -> Asked:
    found: dict[int, tuple[Function, list[Want]]] = {}
    key = 0
    for _, some in probes:
        for part, point, _ in some:
            key += 1
            found.setdefault(part.start, (part, []))[1].append(Want(point.address, point.after, Stamp(key), key))
    return sorted(found.values(), key=lambda item: -item[0].start)


def made_of(ground: PatchContext, asked: Asked) -> Made:
    return [(wants, made) for (_, wants), made in zip(asked, plan(ground, asked).functions, strict=True)]


@pytest.mark.parametrize(("name", "variant"), PROGRAMS)
@pytest.mark.parametrize("policy", [PROCESS, BESIDE], ids=["settled", "beside"])
def test_entries_and_returns_of_a_dense_program_have_room(name: str, variant: str, policy: Policy) -> None:
    path = str(build(name, variant))
    ground = ground_of(path, policy)
    made = made_of(ground, wants_of(timings(ground.analysis)))
    assert violations(path, ground, made) == []
    lacking = {plan.name: plan.refusals for _, plan in made if Refusal.NO_ROOM in plan.refusals.values()}
    assert lacking == {}


@pytest.mark.parametrize("variant", DENSE)
def test_all_functions_of_a_dense_program_have_room_when_planned_together(variant: str) -> None:
    path = str(build("dense", variant))
    ground = ground_of(path)
    made = made_of(ground, wants_of(timings(ground.analysis)))
    assert violations(path, ground, made) == []
    assert [plan.refusals for _, plan in made if plan.refusals] == []


@pytest.mark.parametrize("variant", DENSE)
def test_puns_work_whichever_functions_are_in_force(variant: str) -> None:
    """Plans are made for functions that come and go: in any selection of them, the sites lead to their patches."""
    path, rng = str(build("dense", variant)), random.Random(1)
    ground = ground_of(path, BESIDE)
    made = made_of(ground, wants_of(timings(ground.analysis)))
    sites = {site.address + i for _, plan in made for site in plan.sites for i in range(len(site.new))}
    shared = [plan for _, plan in made if any(at in sites for low, high in plan.pinned for at in range(low, high))]
    assert len(shared) >= 3, "no pun shares a byte with another splice"
    assert violations(path, ground, made) == []
    for share in [0.0, 0.2, 0.5, 0.8] * 10:
        some = [each for each in made if each[1] in shared or rng.random() < share]
        assert violations(path, ground, some) == []


def test_negative_control_puns_that_depend_on_other_splices_are_detected() -> None:
    """Control: the test above would notice such puns."""
    path = str(build("dense", "O1"))
    ground = ground_of(path)
    made = made_of(ground, wants_of(timings(ground.analysis)))
    with pytest.raises(AssertionError):
        assert all(violations(path, ground, [each]) == [] for each in made)


def test_functions_of_two_instructions_without_padding_have_room_alone(tmp_path: Path) -> None:
    """Each returns by two bytes, and has few left over from its entry: less than a jump needs, but for the byte of the
    call that follows. As template plans, which count on nothing beside them.
    """
    path = compile_text(tmp_path, "sleeps", SLEEPS, NO_ROOM, "-O0", "-fPIE", "-pie")
    template = kept(path)
    assert {template.unit_names[unit] for unit in template.cramped().nonzero()[0]} == set()
    bounced = template.row_unit[template.row_outcome == outcome_of("bounce")].tolist()
    assert {"foo", "bar", "mem_alloc"} <= {template.unit_names[unit] for unit in bounced}


def test_a_pun_out_of_reach_of_its_patch_uses_a_trampoline(tmp_path: Path) -> None:
    """The bytes behind a lone `ret` lead to where no jump gets to the arena: the trampoline there goes by memory."""
    path = compile_text(tmp_path, "far", FAR, NO_ROOM, "-O2", "-fPIE", "-pie")
    ground = ground_of(path)
    function = next(f for f in ground.analysis.functions() if f.name == "alone")
    wants = [Want(function.start, False, Stamp(1), 1)]
    made = made_of(ground, [(function, wants)])
    assert made[0][1].tactics == {1: "pun"}
    assert any(patch.data.startswith(asm.JMP_NEXT) for patch in made[0][1].patches)
    assert violations(str(path), ground, made) == []


@pytest.mark.parametrize("order", [("foo", "bar"), ("bar", "foo")])
def test_padding_goes_to_the_function_without_other_room(tmp_path: Path, order: tuple[str, str]) -> None:
    """`foo` is four bytes with padding behind; the short blocks of `bar`, which follows, would do with it too."""
    path = compile_text(tmp_path, "padded", PADDED, NO_ROOM, "-O2", "-fPIE", "-pie")
    ground = ground_of(path)
    ground.policy = replace(PROCESS, any_address=False)
    functions = {f.name: f for f in ground.analysis.functions() if f.name in order}
    keys = itertools.count(1)
    wants = {name: [Want(b.start, False, Stamp(1), next(keys)) for b in functions[name].blocks] for name in order}
    asked = [(functions[name], wants[name]) for name in order]
    made = plan(ground, asked).functions
    tactics = {p.name: Counter(p.tactics.values()) for p in made}
    assert tactics["foo"] == {"jump": 1}
    assert tactics["bar"]["bounce"] >= 2


@pytest.mark.parametrize("name", ["O0", "O1"])
def test_forgotten_plans_leave_no_marks_in_the_registry(name: str) -> None:
    """These include landings of fewer than five bytes, and pins on bytes of other functions."""
    ground = ground_of(build("dense", name), BESIDE)
    before = [bytes(region.marks) + bytes(region.content) for region in ground.registry._regions]
    asked = wants_of(timings(ground.analysis))
    first = plan(ground, asked).functions
    assert any(p.pinned for p in first)
    for each in first:
        forget(ground, each)
    assert [bytes(region.marks) + bytes(region.content) for region in ground.registry._regions] == before


def kept(path: Path) -> PlanTemplate:
    analysis = analysed(str(path))
    return build_template(reference_ground(analysis, SHAPE), timings(analysis))

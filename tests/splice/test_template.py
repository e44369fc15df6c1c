# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans made once and placed anywhere equal, to the byte, those that the planner makes there itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace

import numpy as np
import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.image.elf import load
from gilk.splice.allocator import Arena, PunPages
from gilk.splice.instrument import CallWithIid, CallWithValues, Instrument, Stamp
from gilk.splice.plan import FunctionPlan, Refusal, Want
from gilk.splice.planner import PatchContext, plan
from gilk.splice.policy import PORTABLE
from gilk.splice.template import HEAD, RETURN, MalformedTemplate, PlanTemplate, outcome_of
from gilk.splice.template_build import Probes, build_template, entry_points, timings
from gilk.targets.batch import Batch, pack
from gilk.targets.image import analyse
from gilk.targets.templates import Placed, Shape, Spot, place, reference_ground, stand_in
from tests.programs.build import build
from tests.splice.holds import analysed, violations

BASH = "/bin/bash"
LARGE = ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0"]
PROGRAMS = ["jumptable", "shortblocks", "exceptions", "tailcall"]
SHAPE = Shape(4096, ((1 << 20, 1 << 20),) * 4)
FIRST = 1001  # the iid of the first probe
_AWAY = 0x2A_5550_0000  # to another load address
_FARTHER = 7 << 20  # and the arena that much farther from the image
_USED = 64 * 321  # of it, by something else
_CLOBBERS = 0b1111_1100_0111  # rax, rcx, rdx, rsi, rdi, r8 to r11


def wants(probes: Iterable[Probes], instrument: Callable[[int], Instrument]) -> list[tuple[Function, list[Want]]]:
    """The wants of a session for these probes."""
    found: dict[int, tuple[Function, list[Want]]] = {}
    number = 0
    for _, some in probes:
        for part, point, _ in some:
            want = Want(point.address, point.after, instrument(number), number)
            found.setdefault(part.start, (part, []))[1].append(want)
            number += 1
    return list(found.values())


def timed(analysis: Analysis) -> list[tuple[Function, list[Want]]]:
    """The wants of `time` at every function."""
    return wants(timings(analysis), lambda number: Stamp(FIRST + number))


def numbered(template: PlanTemplate) -> np.ndarray:
    return np.arange(FIRST, FIRST + template.rows)


def elsewhere(ground: PatchContext, away: int, farther: int) -> PatchContext:
    """The same image with everything ``away`` from where it was, and the arena ``farther`` below the image."""
    away = away if ground.analysis.image.position_independent else 0
    base = ground.arena.base + away - farther
    occupied = ground.puns._occupied
    shifted = replace(occupied, ranges=tuple((max(a + away, 0), b + away) for a, b in occupied.ranges))
    arena = Arena(base, ground.arena.size, 0, ground.arena.mark() - ground.arena.base + _USED)
    puns = PunPages(shifted, 0, 1 << 20)
    return PatchContext(
        ground.analysis, ground.bias + away, arena, puns, SHAPE.host(base), ground.policy, keeps_code=True
    )


def differences(ground: PatchContext, placed: Placed, block: int, plans: tuple[FunctionPlan, ...]) -> list[str]:
    """The differences between the placed template and the plan."""
    found = []
    expected = pack(plans)
    for field in fields(Batch):
        got, wanted = getattr(placed.batch, field.name), getattr(expected, field.name)
        if field.name != "names" and got.dtype != wanted.dtype:
            found.append(f"{field.name} is of {got.dtype}")
        if not np.array_equal(got, wanted):
            found.append(f"{field.name} differs")
    jumps = {at: row.tobytes() for at, row in zip(placed.jump_at.tolist(), placed.jumps, strict=True)}
    code = placed.code.tobytes()
    for function in plans:
        for address, data in function.patches:
            at = address - block
            if (code[at : at + len(data)] if ground.arena.holds(address) else jumps.get(address)) != data:
                found.append(f"a patch of {function.name} differs")
    return found


def compare(analysis: Analysis, puns: bool, away: int, farther: int) -> tuple[PlanTemplate, tuple[FunctionPlan, ...]]:
    """With puns, only what lies at the same distances is the same: their pages are where the distances say."""
    ground = reference_ground(analysis, SHAPE)
    ground.policy = replace(PORTABLE, any_address=puns)
    there = elsewhere(ground, away, farther)
    template = PlanTemplate.from_arrays(build_template(ground, timings(ground.analysis)).to_arrays())
    block = there.arena.mark()
    plans = plan(there, timed(analysis)).functions
    placed = place(template, Spot(there.bias, block, there.arena.base), numbered(template))
    assert not placed.lost.any()
    assert differences(there, placed, block, plans) == []
    return template, plans


@pytest.mark.parametrize("kind", [CallWithIid, CallWithValues])
@pytest.mark.parametrize("away", [0, _AWAY])
def test_templates_with_calls_at_entries_equal_plans_made_at_another_address(
    kind: type[CallWithIid | CallWithValues], away: int
) -> None:
    """A function lies wherever it was linked to, and its numbers are in no order."""
    analysis, ground = analysed(BASH), reference_ground(analysed(BASH), SHAPE)
    starts = [span.start for span in analysis.image.spans][::3]
    called = stand_in(ground)
    template = build_template(ground, entry_points(analysis, starts), lambda n: kind(called, n, _CLOBBERS), called)
    template = PlanTemplate.from_arrays(template.to_arrays())
    iids = np.random.default_rng(3).permutation(1 << 20)[: template.rows]
    there = elsewhere(reference_ground(analysis, SHAPE), away, 0)
    callee, block = there.arena.base + 4096, there.arena.mark()
    asked = wants(entry_points(analysis, starts), lambda n: kind(callee, int(iids[n]), _CLOBBERS))
    plans = plan(there, asked).functions
    placed = place(template, Spot(there.bias, block, there.arena.base, callee), iids)
    assert len(plans) == len(starts) and not placed.lost.any()
    assert differences(there, placed, block, plans) == []


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("puns", [True, False])
def test_templates_of_programs_equal_plans_made_at_another_address(name: str, puns: bool) -> None:
    analysis = analyse(load(build(name)))
    compare(analysis, puns, _AWAY, 0)
    compare(analysis, puns=False, away=-_AWAY, farther=_FARTHER)


def test_templates_of_bash_equal_plans_made_at_another_address() -> None:
    template, plans = compare(analysed(BASH), True, _AWAY, 0)
    tactics, refusals = template.outcomes(np.ones(template.rows, np.bool_))
    assert tactics["pun"] and tactics["bounce"] and tactics["copy"], "the cases are not covered"
    assert sum(tactics.values()) == sum(len(p.tactics) for p in plans) and not refusals


@pytest.mark.stress
@pytest.mark.parametrize("path", LARGE)
def test_templates_of_libraries_equal_plans_made_at_another_address(path: str) -> None:
    compare(analysed(path), True, _AWAY, 0)
    compare(analysed(path), puns=False, away=_AWAY, farther=_FARTHER)


@pytest.mark.parametrize("path", [BASH, pytest.param(LARGE[0], marks=pytest.mark.stress)])
def test_any_selection_of_a_templates_functions_is_a_valid_plan(path: str) -> None:
    """What must hold of plans holds when only every second function is put in, and no pun relies on another's bytes."""
    ground = reference_ground(analysed(path), SHAPE)
    asked = sorted(timed(analysed(path)), key=lambda item: -item[0].start)
    made = dict(zip((f.start for f, _ in asked), plan(ground, asked).functions, strict=True))
    for rest in (0, 1):
        some = [(w, made[f.start]) for f, w in asked if (f.start >> 4) % 2 == rest]
        assert violations(path, ground, some) == []
    written = {s.address + i for p in made.values() for s in p.sites for i in range(len(s.new))}
    pinned = {b for p in made.values() for low, high in p.pinned for b in range(low, high)}
    assert pinned and not pinned & written


def test_units_out_of_reach_of_their_patches_are_left_out() -> None:
    """Splices lead to the block, some by way of a pun's jump; from 2 GiB away they do not get there."""
    template = PlanTemplate.from_arrays(small())
    spliced = np.unique(template.site_unit)
    for block in (1 << 33, (1 << 32) - (1 << 20)):
        assert np.array_equal(np.flatnonzero(place(template, Spot(0, block, block), numbered(template)).lost), spliced)
    near = place(template, Spot(1 << 33, (1 << 33) + (1 << 30), (1 << 33) + (1 << 30)), numbered(template))
    assert len(spliced) > 3 and not near.lost[template.site_unit[template.site_leads >= 0]].any()


def damaged() -> list[tuple[str, Callable[[dict[str, np.ndarray]], None]]]:
    def cut(name: str) -> Callable[[dict[str, np.ndarray]], None]:
        return lambda arrays: arrays.__setitem__(name, arrays[name][:-1])

    def put(name: str, at: int, value: int) -> Callable[[dict[str, np.ndarray]], None]:
        return lambda arrays: arrays[name].__setitem__(at, value)

    def leave_out(name: str) -> Callable[[dict[str, np.ndarray]], None]:
        return lambda arrays: arrays.__delitem__(name)

    names = ("int64", "int32", "uint8", "bool", "lengths")
    return [
        *((f"{name} cut", cut(name)) for name in names),
        *((f"no {name}", leave_out(name)) for name in names),
        *((f"length {i}", put("lengths", i, n)) for i in range(len(fields(PlanTemplate))) for n in (-1, 1 << 40)),
        ("floats", lambda arrays: arrays.__setitem__("int64", arrays["int64"].astype(np.float64))),
        ("far", lambda arrays: arrays["int64"].fill(1 << 50)),
        ("units", lambda arrays: arrays["int32"].fill(1 << 30)),
        ("negative", lambda arrays: arrays["int32"].fill(-5)),
        ("noise", lambda arrays: arrays["uint8"].fill(255)),
    ]


@pytest.mark.parametrize(("what", "damage"), damaged(), ids=lambda case: case if isinstance(case, str) else "")
def test_malformed_templates_are_refused(what: str, damage: Callable[[dict[str, np.ndarray]], None]) -> None:
    arrays = {name: array.copy() for name, array in small().items()}
    PlanTemplate.from_arrays(arrays)
    damage(arrays)
    with pytest.raises(MalformedTemplate):
        PlanTemplate.from_arrays(arrays)


def small() -> dict[str, np.ndarray]:
    if not _SMALL:
        ground = reference_ground(analyse(load(build("shortblocks"))), SHAPE)
        _SMALL.update(build_template(ground, timings(ground.analysis)).to_arrays())
    return _SMALL


_SMALL: dict[str, np.ndarray] = {}


def test_an_entry_without_its_return_is_kept_unless_calls_and_loops_would_look_alike() -> None:
    """Planted: every probe of a program is refused in turn, and nothing else is."""
    analysis = analysed(build("shortblocks"))
    made = build_template(reference_ground(analysis, SHAPE), timings(analysis))
    outcomes = np.zeros(made.rows, np.uint8)
    assert replace(made, row_outcome=outcomes).entered().all()
    refused = outcome_of(Refusal.RSEQ)
    heads = {made.unit_owner[unit] for unit in made.row_unit[made.row_kind == HEAD].tolist()}
    assert heads, "no function jumps to its own start"
    for row, unit in enumerate(made.row_unit.tolist()):
        changed = outcomes.copy()
        changed[row] = refused
        lacking = replace(made, row_outcome=changed)
        lost = made.row_kind[row] != RETURN or made.unit_owner[unit] in heads
        expected = (made.unit_owner != made.unit_owner[unit]) | (not lost)
        assert (lacking.entered() == expected).all()
        assert lacking.reasons() == {int(made.unit_owner[unit]): "rseq"}


def test_a_template_of_an_image_without_functions_is_empty() -> None:
    """A packed program has none."""
    empty = PlanTemplate.of_columns({})
    assert len(empty.unit_start) == len(empty.code) == 0
    assert len(PlanTemplate.from_arrays(empty.to_arrays()).unit_start) == 0

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Registers said to be dead may hold anything: real code runs the same with garbage in them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from iced_x86 import EncodingKind

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import EVERYTHING, FLAGS_LIVE, Block, Function, LiveInstruction
from gilk.arch import decode as x86
from tests.analysis.conftest import Compile, function
from tests.oracle.relocate import GPRS, STATUS_FLAGS, differences, run

RAX, RCX, RDX, RBX, RSI, RDI, R11 = (1 << n for n in (0, 1, 2, 3, 6, 7, 11))
SAMPLE = 600
_STATUS = 0x8D5  # CF PF AF ZF SF OF: not DF, which the masks leave out


def live_at(analysis: Analysis, f: Function, address: int) -> int:
    block = f.block_at(address)
    assert block is not None
    return next(s.live for s in analysis.steps(f, block) if s.instruction.ip == address)


def runnable_leaves(analysis: Analysis) -> Iterator[Function]:
    """Functions that an emulator can run on its own: no calls, nothing beyond its instruction set."""
    for f in analysis.functions():
        if f.calls or f.indirect or f.end - f.start > 400 or any(b.target for b in f.blocks):
            continue
        if all(int(i.encoding) == EncodingKind.LEGACY for i in x86.decode(f.code, f.start)):
            yield f


def points(analysis: Analysis, f: Function) -> list[LiveInstruction]:
    return [s for b in f.blocks for s in analysis.steps(f, b) if s.live != EVERYTHING]


def trashed(f: Function, step: LiveInstruction, source: random.Random, flags_return: bool = True) -> list[str]:
    """Run twice from a point to the end, the second time with garbage in everything dead there. Returns the
    differences."""
    registers = {name: source.getrandbits(64) for name in GPRS if name != "rsp"}
    flags = 0x202 | source.getrandbits(12) & _STATUS
    other = {n: source.getrandbits(64) if not step.live >> i & 1 else v for i, (n, v) in _numbered(registers)}
    other_flags = flags if step.live & FLAGS_LIVE else flags ^ _STATUS
    entry = step.instruction.ip
    first = run(f.code, f.start, registers, flags=flags, entry=entry, limit=2000)
    second = run(f.code, f.start, other, flags=other_flags, entry=entry, limit=2000)
    if first.fault is not None:
        return []
    return differences(first, second, flags=STATUS_FLAGS & ~0x10 if flags_return else 0)


def _numbered(registers: dict[str, int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return ((GPRS.index(name), (name, value)) for name, value in registers.items())


@pytest.mark.parametrize("image", ["bash", "libc"])
def test_leaf_functions_run_the_same_with_garbage_in_dead_registers(image: str, request: pytest.FixtureRequest) -> None:
    analysis = request.getfixturevalue(image)
    source = random.Random(4)
    candidates = [(f, step) for f in runnable_leaves(analysis) for step in points(analysis, f)]
    assert len(candidates) > SAMPLE
    for f, step in source.sample(candidates, SAMPLE):
        span = analysis.image.span_at(f.start)
        local = span is not None and not span.exported  # other functions return no flags
        assert trashed(f, step, source, local) == [], f"{f.name} from {step.instruction.ip:#x}, live {step.live:#x}"


def test_the_oracle_detects_a_mask_that_lacks_a_live_register(bash: Analysis) -> None:
    source = random.Random(4)
    noticed = 0
    for f in [f for f in runnable_leaves(bash) if len(f.blocks) < 5][:60]:
        step = bash.steps(f, f.blocks[0])[0]
        noticed += bool(trashed(f, LiveInstruction(step.instruction, step.live & ~(RAX | RDI | RSI | RBX)), source))
    assert noticed > 10


ASSEMBLY = """
__asm__(
".macro function name\\n.type \\\\name,@function\\n\\\\name:\\n.endm\\n"
"function callee\\n mov $1, %ecx\\n mov %rdi, %rax\\n ret\\n.size callee, .-callee\\n"
"function caller\\n call callee\\n mov $2, %edx\\n ret\\n.size caller, .-caller\\n"
"function keeps\\n mov $5, %r11d\\n call callee\\n add %r11, %rax\\n ret\\n.size keeps, .-keeps\\n"
"function one\\n call two\\n mov $1, %esi\\n ret\\n.size one, .-one\\n"
"function two\\n test %edi, %edi\\n je 1f\\n call one\\n1: mov $1, %esi\\n ret\\n.size two, .-two\\n"
"function partial\\n mov $1, %al\\n cmovz %ecx, %edx\\n xor %esi, %esi\\n sub %r8, %r8\\n ret\\n"
".size partial, .-partial\\n"
"function counts\\n dec %ecx\\n jne counts\\n xor %eax, %eax\\n ret\\n.size counts, .-counts\\n"
"function carries\\n dec %ecx\\n adc $0, %eax\\n ret\\n.size carries, .-carries\\n"
"function copies\\n rep movsb\\n xor %ecx, %ecx\\n mov $0, %esi\\n mov $0, %edi\\n ret\\n.size copies, .-copies\\n"
"function asks\\n syscall\\n ret\\n.size asks, .-asks\\n"
"function shifts\\n shl %cl, %eax\\n setc %dl\\n ret\\n.size shifts, .-shifts\\n"
);
int main(void) { return 0; }
"""


@pytest.fixture
def assembly(compiled: Compile) -> Analysis:
    return compiled(ASSEMBLY)


def entry_live(analysis: Analysis, name: str) -> int:
    f = function(analysis, name)
    return analysis.steps(f, f.blocks[0])[0].live


@pytest.mark.parametrize(
    ("name", "live", "dead"),
    [
        ("callee", RDI | RBX | RSI, RAX | RCX),
        ("caller", RDI | RBX, RDX | RAX | RCX),
        ("keeps", RDI, R11 | RAX | RCX),
        ("one", RDI | RAX | RSI, 0),  # their callers do not know them
        ("partial", RAX | RCX | RDX | FLAGS_LIVE, RSI | 1 << 8),
        ("counts", RCX, FLAGS_LIVE),
        ("carries", FLAGS_LIVE | RAX, 0),
        ("copies", RCX | RSI | RDI, 0),
        ("asks", RAX | RDI | RBX, RCX | R11),
        ("shifts", RAX | RCX | RDX | FLAGS_LIVE, 0),
    ],
)
def test_registers_live_and_dead_at_the_entry_of_functions(assembly: Analysis, name: str, live: int, dead: int) -> None:
    mask = entry_live(assembly, name)
    assert mask & live == live
    assert mask & dead == 0


def test_a_register_that_a_callee_leaves_alone_stays_live_across_the_call(assembly: Analysis) -> None:
    keeps = function(assembly, "keeps")
    call = keeps.calls[0][0]
    assert live_at(assembly, keeps, call) & R11


def test_liveness_does_not_depend_on_the_order_of_queries(bash: Analysis) -> None:
    spans = bash.image.spans[::40]
    backwards = Analysis(bash.image, bash.jumps)
    expected = {span.start: _entry(backwards, backwards.function(span)) for span in reversed(spans)}
    assert {span.start: _entry(bash, bash.function(span)) for span in spans} == expected


def test_findings_of_another_analysis_do_not_change_liveness(bash: Analysis) -> None:
    """This holds for functions that it knows, some of which call each other in circles, and for those that it does
    not know."""
    spans = bash.image.spans[::25]
    first = Analysis(bash.image, bash.jumps)
    for span in spans[::2]:
        _entry(first, first.function(span))
    second = Analysis(bash.image, bash.jumps, first.known)
    expected = {span.start: _all_live(bash, bash.function(span)) for span in spans}
    assert {span.start: _all_live(second, second.function(span)) for span in spans} == expected
    assert any(known.cycle != start for start, known in first.known.items())


def _all_live(analysis: Analysis, f: Function) -> list[int]:
    return [step.live for block in f.blocks for step in analysis.steps(f, block)]


def _entry(analysis: Analysis, f: Function) -> int:
    return analysis.steps(f, f.blocks[0])[0].live


def test_live_after_equals_the_registers_live_before_the_transfer(bash: Analysis) -> None:
    for f in [*bash.functions()][::50]:
        for block in f.blocks:
            steps = bash.steps(f, block)
            assert x86.decode(_code(f, block), block.start) == [s.instruction for s in steps]
            if block.terminator < block.end:
                assert bash.live_after(f, block) == steps[-1].live


def _code(f: Function, block: Block) -> bytes:
    return f.code[block.start - f.start : block.end - f.start]


def test_flags_are_rarely_live_between_blocks(bash: Analysis) -> None:
    heads = [bash.steps(f, b)[0].live for f in list(bash.functions())[::20] for b in f.blocks]
    assert sum(bool(live & FLAGS_LIVE) for live in heads) / len(heads) < 0.05

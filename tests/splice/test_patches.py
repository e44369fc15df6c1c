# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real code under real plans: a run through a splice ends as it would have without, and is counted or recorded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from iced_x86 import EncodingKind, Mnemonic

from gilk.analysis.model import FLAGS_LIVE, Block, Function, LiveInstruction
from gilk.arch.effects import effects
from gilk.splice.instrument import CallWithIid, CallWithValues, Count, Instrument, Stamp, StampWithArguments
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import PatchContext, plan
from gilk.splice.segments import is_call
from gilk.targets.image import pretend_loaded
from tests.oracle.relocate import GPRS, GS_BASE, STACK, STATUS_FLAGS, State, differences, initial_byte
from tests.seldom import seldom
from tests.splice import callee
from tests.splice.holds import Memory, analysed
from tests.splice.machine import LIMIT, RING, SLACK, Start, block, claim_thunk, machine, patches, program

PROGRAMS = ["/bin/bash", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/openssl", "/usr/bin/python3"]
RED_ZONE = 128
BLOCK_SIZE = 1 << 26
NUMBERS = dict(enumerate(GPRS))
DIRECTION = 0x400
X87_COMPARISONS = {Mnemonic.FCOMI, Mnemonic.FCOMIP, Mnemonic.FUCOMI, Mnemonic.FUCOMIP}
_LEFT_BY_THEM = 0x890  # OF, SF, AF: processors clear them, and the emulator does not


@dataclass(frozen=True)
class Stretch:
    """Instructions between two places where a frame may sleep, and the instruction of a want among them."""

    function: Function
    block: Block
    steps: tuple[LiveInstruction, ...]
    index: int
    live_at_end: int

    @property
    def start(self) -> int:
        return self.steps[0].instruction.ip

    @property
    def end(self) -> int:
        return self.steps[-1].instruction.next_ip


class Trial:
    """One want, or one before each block of a function; one of them is followed."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.rng = rng
        self.ground: PatchContext = pretend_loaded(analysed(path))
        self.stretch = self._stretch()
        self.wants = self._wants()
        self.made: FunctionPlan = plan(self.ground, [(self.stretch.function, self.wants)]).functions[0]
        self.followed = self.wants[0]
        self.limit = LIMIT  # of instructions that spliced() runs

    def _stretch(self) -> Stretch:
        analysis, rng = self.ground.analysis, self.rng
        while True:
            function = analysis.function(rng.choice(analysis.image.spans))
            if not function.blocks:
                continue
            found = rng.choice(function.blocks)
            steps = analysis.steps(function, found)
            index = rng.choice((0, 0, len(steps) - 1, rng.randrange(len(steps))))
            low = max((i + 1 for i in range(index) if is_call(steps[i])), default=0)
            high = next((i + 1 for i in range(index, len(steps)) if is_call(steps[i])), len(steps))
            part = steps[low:high]
            if part[0].instruction.has_rep_prefix or part[0].instruction.has_repne_prefix:
                continue  # the emulator comes by such an instruction once per round
            if any(_misread(step) for step in part):
                continue
            called = is_call(part[-1])
            falls = high == len(steps) and found.terminator == found.end and not called
            live = analysis.live_after(function, found) if falls else part[-1].live
            killed = 0 if called else effects(part[-1].instruction)[1]
            return Stretch(function, found, part, index - low, live | killed)

    def _wants(self) -> list[Want]:
        rng, stretch = self.rng, self.stretch
        function = callee.address(self.ground)
        kinds: list[Instrument] = [Count(1), Count(1), Stamp(1), StampWithArguments(1)]
        kinds += [CallWithIid(function, 1), CallWithValues(function, 1)]
        wants = [Want(stretch.steps[stretch.index].instruction.ip, False, rng.choice(kinds), 1)]
        if rng.random() < 0.5:
            others = [b for b in stretch.function.blocks if b.start != stretch.block.start]
            wants += [Want(b.start, False, Count(n), n) for n, b in enumerate(others, 2)]
        return wants

    # The two runs.

    def start(self) -> Start:
        rng = self.rng
        mask, weights = (1 << 64) - 1, (1, 2, 6, 1)
        pointer = lambda: 0x5000000 + rng.randrange(1 << 16)  # noqa: E731
        pick = (lambda: rng.getrandbits(64), lambda: rng.randrange(9), pointer, lambda: mask)
        registers = {name: rng.choices(pick, weights)[0]() for name in GPRS} | {"rsp": STACK - 16 * rng.randrange(64)}
        slow = rng.random() < 0.25
        xmm = {n: rng.getrandbits(128) for n in range(16)}
        return Start(registers, 0x202 | rng.getrandbits(12) & 0x8D5, xmm, not slow, slow and rng.random() < 0.3)

    def plain(self, start: Start) -> State:
        low, high = self.stretch.start, self.stretch.end
        code = self.ground.analysis.image.read(low, high - low)
        bias = self.ground.bias
        return machine().execute({low + bias: code}, low + bias, {low + bias}, self.memory(start), start)

    def memory(self, start: Start) -> dict[int, bytes]:
        return program(self.ground) | block(self.ground, start)

    def spliced(
        self, start: Start, entry: int | None = None, written: Mapping[int, int] | None = None
    ) -> tuple[State, list[int]]:
        """Run with the splice. Returns the state, and the stack pointer at each instrument. ``entry``: where the run
        begins, if not at the stretch's start; ``written``: bytes that an earlier part of it has written."""
        bias, host = self.ground.bias, self.ground.host
        low, high = self.stretch.start + bias, self.stretch.end + bias
        memory = Memory(self.ground, [self.made])
        pieces = patches([self.made]) | {host.claim: claim_thunk(self.ground, start)}
        pieces[callee.address(self.ground)] = callee.code(self.ground)
        pieces |= self._lead(memory, low, high)  # a copy may go on in the original, behind what is counted
        if entry is None and self.made.tactics[1] == "copy":
            entry = next(e.patch for e in self.made.equivalences if e.original == low and e.before)
        outside = {e.patch for e in self.made.equivalences if e.before and not low < e.original < high}
        watched = {e.patch for e in self.made.equivalences if e.original == self.followed.address + bias}
        back = {e.patch for e in self.made.equivalences if e.before and e.original == low}
        if self.made.tactics[1] == "call":
            watched = {memory.lead(self.followed.address + bias)[-1]}
        stop = (outside | {low}) - back - self._ways(memory, low, high)
        around = self.memory(start) | {site.address: site.new for site in self.made.sites}
        around = _over(around, written or {})
        again = 0 if start.refused else host.claim
        begin = low if entry is None else entry
        state = machine().execute(pieces, begin, stop, around, start, watched, back, again, self.limit)
        return state, machine().stacks

    def _ways(self, memory: Memory, low: int, high: int) -> set[int]:
        """The addresses passed on the way to the patch, with the patch's start."""
        sites = [s.address for s in self.made.sites if low <= s.address < high and s.address not in self._bounces]
        return {address for site in sites for address in memory.lead(site)[1:]}

    @property
    def _bounces(self) -> set[int]:
        return {e.patch for e in self.made.equivalences}

    def _lead(self, memory: Memory, low: int, high: int) -> dict[int, bytes]:
        end = max([high, *(s.address + len(s.new) for s in self.made.sites if low <= s.address < high)])
        pieces = {low: memory.read(low, end - low)}
        pieces.update({way: memory.read(way, 5) for way in self._ways(memory, low, high) if way not in memory.patches})
        return {at: code for at, code in pieces.items() if not self.ground.arena.holds(at)}

    # The verdict.

    def wrong(self) -> list[str] | None:
        """The differences; None if the case proves nothing, because the code itself faults."""
        start = self.start()
        if 1 not in self.made.tactics:
            return None
        before = self.plain(start)
        if before.fault:
            return None
        after, stacks = self.spliced(start)
        if any(abs(stack - STACK) > 1 << 20 for stack in stacks):
            return None  # the code has just made a register the stack pointer, and there is no stack where it points
        return [*self._state(before, after, stacks), *self._effect(after, start, stacks)]

    def _state(self, before: State, after: State, stacks: list[int]) -> Iterator[str]:
        live = self.stretch.live_at_end
        dead = {name for n, name in NUMBERS.items() if not live >> n & 1} - {"rsp"}
        flags = self._flags_told() if live & FLAGS_LIVE else DIRECTION
        yield from differences(before, after, ignore={*dead, "rip", "writes"}, flags=flags)
        back = {e.patch: e.original for e in self.made.equivalences}
        if back.get(after.rip, after.rip) != before.rip:
            yield f"went to {after.rip:#x} and not {before.rip:#x}"
        for address in before.writes.keys() | after.writes.keys():
            if before.writes.get(address) == after.writes.get(address) or GS_BASE <= address < GS_BASE + BLOCK_SIZE:
                continue
            if address in before.writes or not any(s - RED_ZONE - SLACK <= address < s - RED_ZONE for s in stacks):
                yield f"[{address:#x}] is {after.writes.get(address)} and not {before.writes.get(address)}"

    def _flags_told(self) -> int:
        """All, where some are live at the instrument. Else those that have been defined since.

        `bt` followed by `jc`: the carry is live behind it, and the others are what they were, and nobody reads them.
        """
        steps = self.stretch.steps[self.stretch.index :]
        if steps[0].live & FLAGS_LIVE:
            return STATUS_FLAGS
        told = DIRECTION
        for step in steps:
            taken = step.instruction
            told |= _bits(taken.rflags_written | taken.rflags_cleared | taken.rflags_set)
            told &= ~_bits(taken.rflags_undefined)
            if taken.mnemonic in X87_COMPARISONS:
                told &= ~_LEFT_BY_THEM
        return told

    def _effect(self, after: State, start: Start, stacks: list[int]) -> Iterator[str]:
        """Assert exactly one count or record, and no other change in the thread's block."""
        written = {a - GS_BASE: v for a, v in after.writes.items() if GS_BASE <= a < GS_BASE + BLOCK_SIZE}
        for at in range(8):
            written.pop(at, None)  # the owner, when it was claimed
        if start.refused:
            if written:
                yield f"without a block, {sorted(written)[:8]} were written"
            return
        instrument = self.followed.instrument
        if isinstance(instrument, Count):
            yield from self._counted(written)
        elif isinstance(instrument, CallWithIid | CallWithValues):
            yield from self._called(written, start, isinstance(instrument, CallWithValues))
        else:
            yield from self._recorded(written, start, stacks, isinstance(instrument, StampWithArguments))

    def _counted(self, written: dict[int, int]) -> Iterator[str]:
        at = self.ground.host.counters + 8
        old = sum(initial_byte(GS_BASE + at + i) << 8 * i for i in range(8))
        new = sum(written.pop(at + i, 0) << 8 * i for i in range(8))
        if new != (old + 1) % (1 << 64) or written:
            yield f"the counter went from {old:#x} to {new:#x}; besides: {sorted(written)[:8]}"

    def _called(self, written: dict[int, int], start: Start, values: bool) -> Iterator[str]:
        """The function got its number, and registers' values if earlier instructions have not changed them."""
        at = callee.notes(self.ground)
        given = {
            name: sum(written.pop(at + 8 * n + i, 0) << 8 * i for i in range(8))
            for n, name in enumerate(callee.REGISTERS)
        }
        if (given["iid"] & 0xFFFFFFFF if values else given["rdi"]) != 1 or written:
            yield f"it was called with {given}; besides: {sorted(written)[:8]}"
        if values and self.stretch.index == 0:
            for name, value in given.items():
                if name != "iid" and value != start.registers[name]:
                    yield f"{name} was handed over as {value:#x}, not {start.registers[name]:#x}"

    def _recorded(self, written: dict[int, int], start: Start, stacks: list[int], arguments: bool) -> Iterator[str]:
        kind, size = (2, 64) if arguments else (0, 16)
        ring = 64 + 32 * kind
        at = self.ground.host.rings[kind][0] + RING[0]
        pushed = 8 if self.made.tactics[1] == "call" else 0
        reads = {o: bytes(written.pop(at + o + i, 0) for i in range(4)) for o in range(8, size, 4)}
        if int.from_bytes(reads[8], "little") != 1:
            yield f"the record's iid is {reads[8].hex()}"
        stack = stacks[0] + pushed
        if int.from_bytes(reads[12], "little") != stack & 0xFFFFFFFF:
            yield f"the record's sp is {reads[12].hex()}, with rsp {stack:#x}"
        position = sum(written.pop(ring + i, 0) << 8 * i for i in range(8))
        rest = {a for a in written if not at <= a < at + 8}
        if position != RING[0] + size or rest:
            yield f"wpos is {position:#x}; besides: {sorted(rest)[:8]}"
        if arguments and self.stretch.index == 0:
            for n, name in enumerate(("rdi", "rsi", "rdx", "rcx", "r8", "r9")):
                value = int.from_bytes(reads[16 + 8 * n] + reads[20 + 8 * n], "little")
                if value != start.registers[name]:
                    yield f"{name} was recorded as {value:#x}, not {start.registers[name]:#x}"


def _over(pieces: Mapping[int, bytes], written: Mapping[int, int]) -> dict[int, bytes]:
    """The pieces with the bytes that were written, each at its address."""
    fresh = {at: bytearray(data) for at, data in pieces.items()}
    for address, byte in written.items():
        at = next((at for at, data in fresh.items() if at <= address < at + len(data)), None)
        if at is None:
            fresh[address] = bytearray((byte,))
        else:
            fresh[at][address - at] = byte
    return {at: bytes(data) for at, data in fresh.items()}


def _misread(step: LiveInstruction) -> bool:
    """The emulator goes on behind `hlt`, and takes what it does not know for other things: xbegin for mov."""
    unknown = step.instruction.mnemonic in (Mnemonic.HLT, Mnemonic.XBEGIN)
    return unknown or step.instruction.encoding != EncodingKind.LEGACY


def _bits(flags: int) -> int:
    """iced's flags, OF SF ZF AF CF PF from bit 0 on, as bits of the processor's flags."""
    return sum(bit for n, bit in enumerate((0x800, 0x80, 0x40, 0x10, 0x1, 0x4)) if flags >> n & 1)


def check(path: str, seed: int, count: int) -> int:
    """Check so many cases. Returns how many proved something."""
    rng = random.Random(seed)
    told = 0
    for _ in range(count):
        trial = Trial(path, rng)
        for _ in range(2):
            wrong = trial.wrong()
            told += wrong is not None
            assert not wrong, (path, trial.made.name, trial.wants[0], trial.made.tactics, wrong)
    return told


@pytest.mark.parametrize("path", seldom(PROGRAMS, 3))
def test_real_code_runs_the_same_through_splices(path: str) -> None:
    assert check(path, seed=1, count=60) > 30


@pytest.mark.stress
@pytest.mark.parametrize("path", PROGRAMS)
@pytest.mark.parametrize("seed", range(100, 120))
def test_much_real_code_runs_the_same_through_splices(path: str, seed: int) -> None:
    assert check(path, seed, count=2000) > 1000

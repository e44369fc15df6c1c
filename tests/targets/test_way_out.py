# SPDX-License-Identifier: LGPL-2.1-or-later
"""A context that waits amid a patch goes on without it: real code that is interrupted at any instruction of a patch,
and continues in the original code where way_out() says, ends as it would have without the patch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Site, Splice
from gilk.targets.batch import pack
from gilk.targets.frames import ContextRegisters
from gilk.targets.places import Places, ShownPlaces, places_table
from gilk.targets.way_out import Led, between_instruments, reads_none, way_out, way_out_of_shown
from tests.oracle.relocate import GPRS, State, initial_byte
from tests.seldom import seldom
from tests.splice.machine import LIMIT, Start, machine, patches
from tests.splice.test_patches import PROGRAMS, Trial

LONGEST = 60  # instructions of a run in which it is interrupted
MOMENTS = 12
TABLE = 0x2000_0000_0000  # an address at which nothing else is


class _Content:
    """Memory as it is when a run has been interrupted."""

    def __init__(self, pieces: Mapping[int, bytes], writes: Mapping[int, int]) -> None:
        self._pieces, self._writes = pieces, writes

    def some(self, address: int, size: int) -> bytes:
        return bytes(self._byte(at) for at in range(address, address + size))

    def read(self, address: int, size: int) -> bytes:
        return self.some(address, size)

    def write(self, address: int, data: bytes) -> None:
        raise AssertionError("the way out is only looked for")

    def _byte(self, at: int) -> int:
        if at in self._writes:
            return self._writes[at]
        for start, data in self._pieces.items():
            if start <= at < start + len(data):
                return data[at - start]
        return initial_byte(at)


def registers_at(state: State) -> ContextRegisters:
    return ContextRegisters(tuple(state.gpr[name] for name in GPRS), state.flags, state.rip)


class Interrupted(Trial):
    """A run with a splice that is interrupted, and goes on without it."""

    def places(self) -> Places:
        return Places([pack((self.made,))])

    def interrupted(self, start: Start, after: int) -> tuple[State | None, list[int]]:
        """The state of the run after so many instructions, None if that is not amid a patch; and the stacks that it has
        been on."""
        self.limit = after
        at, stacks = self.spliced(start)
        places = self.places()
        amid = at.fault == "limit" and places.in_patch(at.rip) and places.original(at.rip) is None
        return at if amid else None, stacks

    def verdict(self, start: Start, before: State, after: int) -> list[str] | None:
        """The differences to the run ``before``, without the splice, when this one is interrupted after so many
        instructions; None if that is not amid a patch."""
        at, stacks = self.interrupted(start, after)
        if at is None:
            return None
        registers, places = registers_at(at), self.places()
        found = way_out(registers, places, _Content(patches([self.made]), at.writes), self.ground.arena.holds)
        if found is None:
            return [f"no way out of {at.rip:#x}"]
        if self.made.tactics[1] != "call" and self._by_table(registers, at) != found:
            return [f"another way out of {at.rip:#x} by the table that the runtime has"]
        return list(self._state(before, self._continued(start, at, found), [*stacks, at.gpr["rsp"] + 128]))

    def _by_table(self, registers: ContextRegisters, at: State) -> ContextRegisters | None:
        """The way out by the table that the runtime has, in which patches without a place with an equal are left
        out."""
        table = places_table([pack((self.made,))], [])
        content = _Content({**patches([self.made]), TABLE: table}, at.writes)
        shown = ShownPlaces(content, TABLE, len(table))
        return way_out_of_shown(registers, shown, content, self.ground.arena.holds)

    def _continued(self, start: Start, at: State, found: ContextRegisters) -> State:
        """The state in which the original code ends that goes on with the registers ``found``."""
        low, high, bias = self.stretch.start, self.stretch.end, self.ground.bias
        code = self.ground.analysis.image.read(low, high - low)
        registers = dict(zip(GPRS, found.general, strict=True))
        if not low + bias <= found.rip < high + bias:
            return replace(at, gpr=registers, flags=found.flags, rip=found.rip, fault=None)
        xmm = dict(enumerate(at.xmm))
        memory = self.memory(start) | {address: bytes((byte,)) for address, byte in at.writes.items()}
        going = Start(registers, found.flags, xmm, start.owner, start.refused)
        ended = machine().execute({low + bias: code}, found.rip, {low + bias}, memory, going)
        return replace(ended, writes={**at.writes, **ended.writes})


def check(path: str, seed: int, count: int, of: type[Interrupted] = Interrupted) -> int:
    """Interrupt so many runs, each at MOMENTS instructions. Returns how many interruptions proved something."""
    rng, told = random.Random(seed), 0
    for _ in range(count):
        trial = of(path, rng)
        if 1 not in trial.made.tactics:
            continue
        start = trial.start()
        before = trial.plain(start)
        for after in sorted(rng.sample(range(1, LONGEST), MOMENTS)) if not before.fault else ():
            wrong = trial.verdict(start, before, after)
            told += wrong is not None
            assert not wrong, (path, trial.made.name, trial.wants[0], trial.made.tactics, after, wrong)
    return told


@pytest.mark.parametrize("path", seldom(PROGRAMS, 1))
def test_real_code_goes_on_without_its_patch_wherever_it_is_interrupted(path: str) -> None:
    assert check(path, seed=1, count=40) > 60


@pytest.mark.stress
@pytest.mark.parametrize("path", PROGRAMS)
@pytest.mark.parametrize("seed", range(100, 110))
def test_much_real_code_goes_on_without_its_patch(path: str, seed: int) -> None:
    assert check(path, seed, count=1000) > 1000


class LedOn(Interrupted):
    """A run with a splice that is interrupted, and goes on in the same splice where it is led to."""

    def verdict(self, start: Start, before: State, after: int) -> list[str] | None:
        """The differences to the run ``before``, and in what is counted and recorded, when this run is interrupted
        after so many instructions; None if that is not amid a patch, or amid the work of an instrument."""
        at, stacks = self.interrupted(start, after)
        if at is None:
            return None
        registers, places = registers_at(at), self.places()
        content = _Content(patches([self.made]), at.writes)
        led = between_instruments(registers, places, content, self.ground.arena.holds)
        if led is None or not reads_none(led.spoilt, self._entry(*led.place), places, content):
            return None
        self.limit = LIMIT
        ended, more = self._goes_on(start, at, led)
        stacks = [*stacks, at.gpr["rsp"] + 128, *more]
        return [*self._state(before, ended, stacks), *self._effect(ended, start, stacks)]

    def _entry(self, original: int, before: bool) -> int:
        """The address of a place in its patch, beyond the jump of a bounce; the original address if there is none."""
        equal = (e.patch for e in self.made.equivalences if (e.original, e.before) == (original, before))
        return next((patch for patch in equal if self.ground.arena.holds(patch)), original)

    def _goes_on(self, start: Start, at: State, led: Led) -> tuple[State, list[int]]:
        """The state in which the splice ends when it is entered as ``led`` says."""
        flags, registers = led.registers.flags, dict(zip(GPRS, led.registers.general, strict=True))
        low, high = self.stretch.start + self.ground.bias, self.stretch.end + self.ground.bias
        if not low <= led.place[0] < high:
            return replace(at, gpr=registers, flags=flags, rip=led.place[0], fault=None), []
        going = replace(start, registers=registers, flags=flags, xmm=dict(enumerate(at.xmm)))
        ended, stacks = self.spliced(going, self._entry(*led.place), at.writes)
        return replace(ended, writes={**at.writes, **ended.writes}), stacks


@pytest.mark.parametrize("path", seldom(PROGRAMS, 1))
def test_real_code_counts_once_wherever_it_is_led_between_instruments(path: str) -> None:
    assert check(path, seed=2, count=40, of=LedOn) > 20


@pytest.mark.stress
@pytest.mark.parametrize("path", PROGRAMS)
@pytest.mark.parametrize("seed", range(200, 210))
def test_much_real_code_counts_once_wherever_it_is_led(path: str, seed: int) -> None:
    assert check(path, seed, count=1000, of=LedOn) > 500


#: A patch with a call of a function, and what the function does last.
PATCH, FUNCTION, CODE, STACK = 0x900000, 0x910000, 0x1000, 0x7000_0000


def out_of(function: bytes, rip: int = FUNCTION) -> ContextRegisters | None:
    """The way out of a function that a patch has called: behind the call, the patch steps back over 8 bytes of the
    stack, and goes on at CODE."""
    call = b"\xe8" + (FUNCTION - PATCH - 5).to_bytes(4, "little")
    patch = call + b"\x48\x8d\x64\x24\x08" + b"\xe9" + bytes(4)
    splice = Splice("jump", PATCH, Site(CODE, b"\x90" * 5, b"\xe9\0\0\0\0"), (CODE,))
    plan = FunctionPlan("f", (splice,), (Patch(PATCH, patch),), (Equivalence(PATCH + 10, CODE, True),))
    returns = {STACK + at: byte for at, byte in enumerate((PATCH + 5).to_bytes(8, "little"))}
    registers = ContextRegisters((0, 0, 0, 0, STACK, *range(11)), 0x202, rip)
    ours = lambda address: PATCH <= address < FUNCTION + 0x1000  # noqa: E731
    return way_out(registers, Places([pack((plan,))]), _Content({PATCH: patch, FUNCTION: function}, returns), ours)


def test_a_context_in_a_function_goes_on_behind_the_patch() -> None:
    found = out_of(b"\x0f\x1f\x00\xc3")  # nop; ret
    assert found is not None and (found.rip, found.general[4]) == (CODE, STACK + 16)


@pytest.mark.parametrize(
    "code",
    [
        "480fae2c24c3",  # xrstor64 [rsp]; ret
        "0f1000c3",  # movups xmm0, [rax]; ret
        "4889c4c3",  # mov rsp, rax; ret: to nowhere
        "65488b2425c0000000c3",  # mov rsp, gs:0xc0; ret
        "0f0b",  # ud2
        "f4",  # hlt
        "ebfe",  # an endless loop
    ],
)
def test_a_context_stays_where_more_than_registers_is_restored(code: str) -> None:
    assert out_of(bytes.fromhex(code)) is None

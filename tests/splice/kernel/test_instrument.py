# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every instrument of the kernel, run by an emulator: live registers are kept, and exactly one hit is recorded.

The form of a record is taken from native/abi/ilk_abi.h, not from the code under test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from gilk.arch import asm
from gilk.splice.code import CodeBuilder
from gilk.splice.frame import DIRECTION
from gilk.splice.host import Context, Host
from gilk.splice.instrument import Instrument
from gilk.splice.kernel.host import InterruptMask, RingPlaces
from gilk.splice.kernel.instrument import (
    KernelCallWithIid,
    KernelCallWithRegisters,
    KernelCount,
    KernelStamp,
    KernelStampWithArguments,
)
from gilk.splice.kernel.onward import KernelNotesJump, KernelReturnsFromAll
from gilk.splice.onward import FACTOR, HASH_BITS, IfItJumps
from tests.oracle.relocate import GPRS
from tests.seldom import seldom
from tests.splice.kernel.cpu import CODE, CPUS, END, FAR, RING, RING_SIZE, STACK, TASK, Cpu

FLAGS = 1 << 16
STATUS, DF = 0x8D5, 0x400
TABLE = CODE + 0x4000  # of notes
RESERVE, BODY, THUNK = CODE + 0x8000, CODE + 0x8100, CODE + 0x8200
CHUNK, SET = 0x1000, 2
IN_INTERRUPT = 0xFF0100
WPOS = (0x100, 0x108, 0x110, 0x118)
CURRENT, PID_OFFSET, PID = 0x180, 0x4D8, 0x2ABCDE
IID, SLOT = 0x1234567, 0x208
PUSHED = 8
FILTER, TGID_OFFSET, TGID = 0x188, 0x4DC, 0x2ABCD
BITS = RING + RING_SIZE // 2  # no chunk lies there
RINGS = RingPlaces(WPOS, CHUNK, SET, RESERVE, CURRENT, PID_OFFSET, FILTER, TGID_OFFSET)
HOST = Host(0, 0, 0, ())
SIZES = {KernelStamp: 16, KernelStampWithArguments: 64}
CALLER_SAVED = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
INSTRUMENTS: list[Instrument] = [
    KernelCount(SLOT), KernelCount(FAR + SLOT), KernelStamp(IID, RINGS), KernelStampWithArguments(IID, RINGS),
    KernelCallWithIid(BODY, IID), KernelCallWithRegisters(BODY, IID, THUNK),
]  # fmt: skip
NAMES = ["count", "count far", "stamp", "arguments", "call", "registers"]
WITH_EVERYTHING = pytest.mark.parametrize("instrument", INSTRUMENTS, ids=NAMES)
RECORDERS = pytest.mark.parametrize("instrument", INSTRUMENTS[2:4], ids=NAMES[2:4])


def live_sets() -> list[int]:
    rng = random.Random(1)
    everything, rsp = FLAGS | 0xFFFF, 1 << 4
    entry = sum(1 << reg for reg in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15))
    few = [rsp, rsp | FLAGS, everything, everything & ~FLAGS, entry, rsp | FLAGS | 1]
    return few + [rng.getrandbits(17) | rsp for _ in range(14)]


@cache
def code(instrument: Instrument, live: int, pushed: int = 0) -> bytes:
    builder = CodeBuilder()
    instrument.emit(builder, HOST, Context(live, CODE, pushed))
    builder.external(asm.JMP32, END, jump=True)
    return builder.finish().placed(CODE, {})


def registers(seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    return {name: rng.getrandbits(64) for name in GPRS} | {"rsp": STACK + 0x3000 + 8 * rng.randrange(64)}


class Kernel(Cpu):
    """A CPU with the driver's part played: a task, rings, and the functions that patches call."""

    def __init__(self, patch: bytes, room: int = 8) -> None:
        """``room`` is the number of records that fit the chunk; after them ilk_reserve is asked, and gives another
        chunk."""
        super().__init__(patch, {RESERVE: type(self).reserve, BODY: type(self).body, THUNK: type(self).thunk})
        self.calls: list[int] = []
        self.backwards: list[bool] = []
        self.reserved: list[int] = []
        self.words: list[int] = []
        self.refuses = False
        self.room = room
        for cpu, base in enumerate(CPUS):
            for kind, size in enumerate((16, 32, 64, 256)):
                self.write(base + WPOS[kind], self.chunk(cpu, kind) + CHUNK - room * size)
            self.write(base + CURRENT, TASK)
        self.write(TASK + PID_OFFSET, PID, 4)
        self.write(TASK + TGID_OFFSET, TGID, 4)

    @staticmethod
    def chunk(cpu: int, kind: int) -> int:
        return RING + cpu * RING_SIZE + 2 * kind * CHUNK

    def reserve(self) -> None:
        kind, owner = self["rax"] & 3, CPUS.index(self["gs_base"])
        self.reserved.append(self["rax"])
        wpos = CPUS[owner] + WPOS[kind]
        at = self.read(wpos)
        self["rax"] = 0 if self.refuses else at
        if not self.refuses:
            self.write(wpos, at + (16, 32, 64, 256)[kind])
        self["eflags"] = 0x2 | STATUS

    def body(self) -> None:
        self.calls.append(self["rdi"] & 0xFFFFFFFF)
        self.backwards.append(self["eflags"] & DF != 0)
        for name in CALLER_SAVED:
            self[name] = 0xBAD0BAD0BAD0BAD0
        self["eflags"] = 0x2 | STATUS & ~self["eflags"]

    def thunk(self) -> None:
        self.words = [self.read(self["rsp"] + 8 * n) for n in range(1, 5)]
        self.calls.append(self["rsp"] + 40)


def finished(instrument: Instrument, live: int, seed: int, flags: int) -> tuple[Kernel, dict[str, int]]:
    kernel, start = Kernel(code(instrument, live)), registers(seed)
    kernel.run(start, flags)
    return kernel, start


def lost(kernel: Kernel, start: dict[str, int], flags: int, live: int) -> Iterator[str]:
    """The live registers and flags that have changed."""
    for number, name in enumerate(GPRS):
        if live >> number & 1 and kernel[name] != start[name]:
            yield f"{name} is {kernel[name]:#x}, not {start[name]:#x}"
    if live & FLAGS and (kernel["eflags"] ^ flags) & STATUS:
        yield f"flags are {kernel['eflags']:#x}, not {flags:#x}"


@WITH_EVERYTHING
@pytest.mark.parametrize("live", seldom(live_sets(), 10), ids=hex)
def test_live_registers_and_flags_are_preserved(instrument: Instrument, live: int) -> None:
    for seed, flags in enumerate((0x2, 0x2 | STATUS, 0x2 | 0x801, 0x2 | 0x94)):
        kernel, start = finished(instrument, live, seed, flags)
        assert not list(lost(kernel, start, flags, live))
        assert kernel["rsp"] == start["rsp"]


@pytest.mark.parametrize("live", seldom(live_sets(), 10), ids=hex)
@pytest.mark.parametrize("pushed", [0, PUSHED])
def test_a_return_calls_the_driver_where_its_frame_may_have_notes(live: int, pushed: int) -> None:
    """All other frames cost a look, and change nothing."""
    instrument = KernelReturnsFromAll(TABLE, KernelCallWithRegisters(BODY, IID, THUNK))
    for seed, flags in enumerate((0x2, 0x2 | STATUS, 0x2 | 0x801, 0x2 | 0x94)):
        for is_open in (False, True):
            kernel, start = Kernel(code(instrument, live, pushed)), registers(seed)
            hashed = ((start["rsp"] + pushed) * FACTOR & 0xFFFFFFFF) >> 32 - HASH_BITS
            kernel.write(TABLE + hashed, int(is_open), 1)
            kernel.run(start, flags)
            assert not list(lost(kernel, start, flags, live))
            assert kernel["rsp"] == start["rsp"]
            assert kernel.words == ([CODE, pushed, BODY, IID] if is_open else [])


@pytest.mark.parametrize("condition", range(16))
def test_an_instrument_runs_only_where_the_conditional_jump_behind_it_is_taken(condition: int) -> None:
    instrument = IfItJumps(condition, KernelNotesJump(BODY, IID, THUNK))
    for flags in range(0x2, 0x1000):
        if flags & ~(STATUS | 0x2):
            continue
        kernel, start = finished(instrument, FLAGS | 0xFFFF, 1, flags)
        assert bool(kernel.words) == holds(condition, flags)
        assert not list(lost(kernel, start, flags, FLAGS | 0xFFFF))


def holds(condition: int, flags: int) -> bool:
    """Whether a condition code holds (Intel SDM, volume 1, appendix B)."""
    carry, parity, zero, sign, overflow = (bool(flags >> bit & 1) for bit in (0, 2, 6, 7, 11))
    less = sign != overflow
    plain = (overflow, carry, zero, carry or zero, sign, parity, less, zero or less)[condition >> 1]
    return plain != bool(condition & 1)


def changed(kernel: Kernel, start: dict[str, int]) -> dict[int, int]:
    """The bytes of memory that differ from those of a kernel in which nothing has run: address -> value."""
    fresh = Kernel(kernel.code, kernel.room)
    fresh["rsp"] = start["rsp"]
    now, before = kernel.memory(), fresh.memory()
    return {
        address + i: value
        for address in now for i, (value, old) in enumerate(zip(now[address], before[address], strict=True))
        if value != old
    }  # fmt: skip


@pytest.mark.parametrize("live", live_sets(), ids=hex)
@pytest.mark.parametrize("offset", [SLOT, FAR + SLOT], ids=hex)
def test_a_count_changes_only_its_counter(offset: int, live: int) -> None:
    kernel, start = finished(KernelCount(offset), live, 1, 0x2)
    assert changed(kernel, start) == {CPUS[0] + offset: 1}


def test_a_count_carries_into_the_upper_word() -> None:
    """All 64 bits count."""
    kernel = Kernel(code(KernelCount(SLOT), 0))
    kernel.write(CPUS[0] + SLOT, 0xFFFFFFFF)
    kernel.run(registers(1), 0x2)
    assert kernel.read(CPUS[0] + SLOT) == 0x100000000


def record(kernel: Kernel, at: int, size: int) -> bytes:
    return kernel.get(at, size)


def who(rsp: int) -> int:
    return PID | (rsp >> 4 & 0x3FF) << 22


def expected(instrument: Instrument, start: dict[str, int], rsp: int) -> bytes:
    """A record without its time."""
    names = ("rdi", "rsi", "rdx", "rcx", "r8", "r9") if isinstance(instrument, KernelStampWithArguments) else ()
    head = IID.to_bytes(4, "little") + who(rsp).to_bytes(4, "little")
    return head + b"".join(start[name].to_bytes(8, "little") for name in names)


def kind_of(instrument: Instrument) -> int:
    return 2 if isinstance(instrument, KernelStampWithArguments) else 0


@RECORDERS
@pytest.mark.parametrize("live", live_sets(), ids=hex)
@pytest.mark.parametrize("pushed", [0, PUSHED])
def test_a_record_has_the_right_values(instrument: Instrument, live: int, pushed: int) -> None:
    kernel, start = Kernel(code(instrument, live, pushed)), registers(3)
    kernel.run(start, 0x2)
    kind, size = kind_of(instrument), SIZES[type(instrument)]
    at = kernel.chunk(0, kind) + CHUNK - 8 * size
    assert record(kernel, at, size)[8:] == expected(instrument, start, start["rsp"] + pushed)
    assert int.from_bytes(record(kernel, at, 8), "little")
    assert kernel.read(CPUS[0] + WPOS[kind]) == at + size
    allowed = {*range(at, at + size), *range(CPUS[0] + WPOS[kind], CPUS[0] + WPOS[kind] + 8)}
    assert changed(kernel, start).keys() <= allowed


@RECORDERS
def test_times_of_records_increase(instrument: Instrument) -> None:
    kernel, size = Kernel(code(instrument, 0)), SIZES[type(instrument)]
    at = kernel.chunk(0, kind_of(instrument)) + CHUNK - 8 * size
    for _ in range(3):
        kernel.run(registers(1), 0x2)
    times = [kernel.read(at + n * size) for n in range(3)]
    assert times[0] < times[1] < times[2]


@RECORDERS
@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
def test_a_full_chunk_is_replaced_by_the_driver(instrument: Instrument, live: int) -> None:
    kernel, start = Kernel(code(instrument, live), room=0), registers(4)
    kernel.run(start, 0x2)
    kind, size = kind_of(instrument), SIZES[type(instrument)]
    assert kernel.reserved == [kind + 4 * SET]
    assert record(kernel, kernel.chunk(0, kind) + CHUNK, size)[8:] == expected(instrument, start, start["rsp"])
    assert not list(lost(kernel, start, 0x2, live))


@RECORDERS
@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
def test_without_room_nothing_is_written(instrument: Instrument, live: int) -> None:
    kernel, start = Kernel(code(instrument, live), room=0), registers(5)
    kernel.refuses = True
    kernel.run(start, 0x2 | 0x801)
    assert not changed(kernel, start)
    assert not list(lost(kernel, start, 0x2 | 0x801, live))


# Whose records are wanted.


def filtered(instrument: Instrument, live: int, wanted: int) -> Kernel:
    """A kernel that has run the instrument with a filter for one process."""
    kernel = Kernel(code(instrument, live))
    kernel.put(BITS + wanted // 8, bytes((1 << wanted % 8,)))
    for base in CPUS:
        kernel.write(base + FILTER, BITS)
    return kernel


@RECORDERS
@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
@pytest.mark.parametrize("wanted", [TGID, TGID - 1, TGID + 1, TGID - 8, TGID + 64, 0], ids=hex)
def test_only_selected_processes_make_records(instrument: Instrument, live: int, wanted: int) -> None:
    kernel, start = filtered(instrument, live, wanted), registers(11)
    kernel.run(start, 0x2 | 0x801)
    assert told(kernel, instrument) == (wanted == TGID)
    assert not list(lost(kernel, start, 0x2 | 0x801, live))


@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
@pytest.mark.parametrize(("tgid", "bit", "preempt", "made"), [
    (TGID, TGID, 0, True), (TGID, TGID, 0x10000, True), (TGID, 0, 0, False), (TGID, 0, 0x2FF & ~0x100, False),
    (TGID, 0, 0x100, True), (TGID, 0, 0x10000, True), (TGID, 0, 0x80100001, True), (TGID, 0, 0x80000000, False),
    (TGID, 1, 0x10000, False), (0, 0, 0, False), (0, 0, 0x10000, True), (0, 1, 0x10000, False),
])  # fmt: skip
def test_interrupts_are_recorded_whichever_process_they_interrupt(
    tgid: int, bit: int, preempt: int, made: bool, live: int
) -> None:
    """0 is the idle task, whose bit stands for interrupts. 0x200 is: softirqs are disabled."""
    word = CURRENT + 16
    stamp = KernelStamp(IID, replace(RINGS, interrupts=InterruptMask(word, IN_INTERRUPT)))
    kernel, start = Kernel(code(stamp, live)), registers(13)
    kernel.write(TASK + TGID_OFFSET, tgid, 4)
    kernel.put(BITS + bit // 8, bytes((1 << bit % 8,)))
    for base in CPUS:
        kernel.write(base + FILTER, BITS)
        kernel.write(base + word, preempt, 4)
    kernel.run(start, 0x2 | 0x801)
    assert told(kernel, stamp) == made
    assert not list(lost(kernel, start, 0x2 | 0x801, live))


@RECORDERS
@pytest.mark.parametrize("wanted", [TGID, TGID + 1], ids=["wanted", "not"])
def test_the_filter_may_be_removed_at_any_instruction(instrument: Instrument, wanted: int) -> None:
    """What it points to is then not to be looked for at 0."""
    steps = filtered(instrument, FLAGS | 0xFFFF, wanted)
    steps.run(registers(12), 0x2)
    made = []
    for when in range(steps.trips):

        def lift(cpu: Cpu, step: int, when: int = when) -> None:
            if step == when:
                cpu.write(CPUS[0] + FILTER, 0)

        kernel, start = filtered(instrument, FLAGS | 0xFFFF, wanted), registers(12)
        kernel.run(start, 0x2, lift)
        assert not list(lost(kernel, start, 0x2, FLAGS | 0xFFFF)), when
        made.append(told(kernel, instrument))
    assert made[0] == 1 and made[-1] == (wanted == TGID)


# What may happen in between.


@WITH_EVERYTHING
@pytest.mark.parametrize("live", [1 << 4, FLAGS | 0xFFFF], ids=hex)
def test_an_interrupt_may_run_the_same_instrument_at_any_instruction(instrument: Instrument, live: int) -> None:
    _, alone = finished(instrument, live, 6, 0x2), registers(6)
    steps = Kernel(code(instrument, live))
    steps.run(alone, 0x2)
    for when in range(steps.trips):
        kernel = Kernel(code(instrument, live))
        kernel.run(alone, 0x2, lambda cpu, step, when=when: cpu.interrupt() if step == when else None)
        assert not list(lost(kernel, alone, 0x2, live)), when
        assert told(kernel, instrument) == 2, when


def told(kernel: Kernel, instrument: Instrument) -> int:
    """The number of hits that are recorded, on all CPUs; an incomplete record does not count."""
    if isinstance(instrument, KernelCount):
        return sum(kernel.read(base + instrument.gs) for base in CPUS)
    if not isinstance(instrument, KernelStamp | KernelStampWithArguments):
        return len(kernel.calls)
    kind, size = kind_of(instrument), SIZES[type(instrument)]
    found = 0
    for cpu, base in enumerate(CPUS):
        first, end = kernel.chunk(cpu, kind) + CHUNK - 8 * size, kernel.read(base + WPOS[kind])
        for at in range(first, end, size):
            assert kernel.read(at + 8, 4) == IID
            assert kernel.read(at + 12, 4) & 0x3FFFFF == PID
            assert kernel.read(at)
            found += 1
        assert not any(kernel.get(end, kernel.chunk(cpu, kind) + CHUNK - end))
    return found


@WITH_EVERYTHING
@pytest.mark.parametrize("live", [1 << 4, FLAGS | 0xFFFF], ids=hex)
def test_a_task_may_be_moved_to_another_cpu_at_any_instruction(instrument: Instrument, live: int) -> None:
    _check_moves(instrument, live, lambda cpu: None)


@RECORDERS
def test_a_task_may_be_moved_to_a_cpu_that_has_just_made_a_record(instrument: Instrument) -> None:
    """Another task has made a record here meanwhile."""
    _check_moves(instrument, FLAGS | 0xFFFF, lambda cpu: cpu.interrupt(), told_then=2)


def _check_moves(instrument: Instrument, live: int, before: Callable[[Cpu], None], told_then: int = 1) -> None:
    probe, start = Kernel(code(instrument, live)), registers(7)
    probe.run(start, 0x2)
    for when in range(probe.trips):

        def move(cpu: Cpu, step: int, when: int = when) -> None:
            if step == when:
                before(cpu)
                cpu.move_to(1)

        kernel = Kernel(code(instrument, live))
        kernel.run(start, 0x2, move)
        assert not list(lost(kernel, start, 0x2, live)), when
        assert told(kernel, instrument) == told_then, when


# What is called.


@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
def test_an_instrument_function_gets_its_number(live: int) -> None:
    kernel, _ = finished(KernelCallWithIid(BODY, IID), live, 8, 0x2)
    assert kernel.calls == [IID]


@pytest.mark.parametrize("live", live_sets()[:6], ids=hex)
@pytest.mark.parametrize("flags", [0x2, 0x2 | DF, 0x2 | DF | STATUS], ids=hex)
def test_an_instrument_function_runs_with_the_direction_flag_clear(live: int, flags: int) -> None:
    """Wherever that may be set; and it is afterwards what it was."""
    kernel, start = finished(KernelCallWithIid(BODY, IID), live | DIRECTION, 8, flags)
    assert kernel.backwards == [False]
    assert kernel["eflags"] & DF == flags & DF
    assert not list(lost(kernel, start, flags, live))


@pytest.mark.parametrize("pushed", [0, PUSHED])
def test_an_instrument_function_gets_the_registers(pushed: int) -> None:
    """The words are pc, shift, function, iid; the stack pointer at the point is behind them and ``shift``."""
    kernel, start = Kernel(code(KernelCallWithRegisters(BODY, IID, THUNK), 0, pushed)), registers(9)
    kernel.run(start, 0x2)
    assert kernel.words == [CODE, pushed, BODY, IID]
    assert kernel.calls == [start["rsp"]]


# How much it costs, without the two jumps of a splice.

ENTRY = sum(1 << reg for reg in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15))


@pytest.mark.parametrize(
    ("instrument", "live", "most"),
    [
        (KernelCount(SLOT), 0xFFFF, 1),
        (KernelCount(FAR + SLOT), ENTRY, 2),
        (KernelCount(SLOT), 0xFFFF & ~1 | FLAGS, 5),
        (KernelCount(SLOT), 0xFFFF | FLAGS, 7),
        (KernelStamp(IID, RINGS), ENTRY, 26),
        (KernelStamp(IID, RINGS), 0xFFFF | FLAGS, 34),
        (KernelStampWithArguments(IID, RINGS), ENTRY, 34),
        (KernelCallWithIid(BODY, IID), 0, 2),
        (KernelCallWithIid(BODY, IID, clobbers=1 << 0 | 1 << 2), ENTRY & ~(1 << 7), 4),
        (KernelCallWithIid(BODY, IID, clobbers=1 << 0 | 1 << 2), ENTRY, 6),
        (KernelCallWithRegisters(BODY, IID, THUNK), 0xFFFF | FLAGS, 6),
    ],
)
def test_instruments_take_no_more_instructions_than_their_bound(instrument: Instrument, live: int, most: int) -> None:
    kernel, _ = finished(instrument, live, 10, 0x2)
    assert kernel.trips - 1 <= most  # without the jump to the end


@pytest.mark.parametrize(("live", "most"), [(ENTRY, 14), (0xFFFF | FLAGS, 24)])
def test_instruments_take_few_instructions_for_unselected_processes(live: int, most: int) -> None:
    kernel = filtered(KernelStamp(IID, RINGS), live, TGID + 1)
    kernel.run(registers(10), 0x2)
    assert kernel.trips - 1 <= most


class Replacing(Kernel):
    """The called code has a function return ``value``; with None it has the function run."""

    def __init__(self, patch: bytes, value: int | None) -> None:
        super().__init__(patch)
        self.value = value
        self.services |= {FUNCTION: type(self).function, THUNK: type(self).thunk}
        self.ran: list[dict[str, int]] = []

    def function(self) -> None:
        self.ran.append(self.registers)

    def thunk(self) -> None:
        super().thunk()
        if self.value is not None:
            self["rax"] = self.value
            self.write(self["rsp"] + 8 * 4, 0)


FUNCTION = CODE + 0x8300


@pytest.mark.parametrize("value", [None, 0, 77])
@pytest.mark.parametrize("pushed", [0, PUSHED])
def test_a_function_runs_or_advice_replaces_it(pushed: int, value: int | None) -> None:
    """By a patch that a jump leads to, and by one that the function calls: ``pushed`` then is its return address."""
    builder = CodeBuilder()
    KernelCallWithRegisters(BODY, IID, THUNK, replaces=True).emit(builder, HOST, Context(0xFFFF, CODE, pushed))
    if pushed:
        builder.emit(asm.RET)
    else:
        builder.external(asm.JMP32, FUNCTION, jump=True)
    kernel, start = Replacing(builder.finish().placed(CODE, {}), value), registers(13)
    kernel.write(start["rsp"], FUNCTION)
    kernel.write(start["rsp"] + pushed, END)
    kernel.run(start, 0x2)
    assert kernel.words == [CODE, pushed, BODY, IID]
    behind = start | {"rsp": start["rsp"] + pushed}
    assert kernel.ran == ([behind] if value is None else [])
    result = start["rax"] if value is None else value
    assert kernel.registers == start | {"rsp": start["rsp"] + pushed + 8, "rax": result}


# The emulator itself.


def test_negative_control_the_emulator_overwrites_memory_below_the_stack_pointer() -> None:
    kernel = Kernel(asm.store_stack(0, -8) + asm.load_stack(0, -8) + b"\xe9" + (END - CODE - 21).to_bytes(4, "little"))
    start = registers(11)
    kernel.run(start, 0x2)
    assert list(lost(kernel, start, 0x2, 1))


def test_negative_control_moves_of_a_task_are_detected() -> None:
    """A counter that is read and written later loses hits between two CPUs."""
    slow = asm.load_gs(0, SLOT) + asm.lea(0, 0, 1) + b"\x65\x48\x89\x04\x25" + SLOT.to_bytes(4, "little")
    kernel = Kernel(slow + b"\xe9" + (END - CODE - len(slow) - 5).to_bytes(4, "little"))
    kernel.write(CPUS[0] + SLOT, 5)
    kernel.run(registers(12), 0x2, lambda cpu, step: cpu.move_to(step > 0))
    assert (kernel.read(CPUS[0] + SLOT), kernel.read(CPUS[1] + SLOT)) == (5, 6)

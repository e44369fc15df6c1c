# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal frames are found on every stack that a stack pointer leads to, also if several stacks lie in one mapping."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace

import pytest

from gilk.targets.frame_writes import SecondFrame, rewritten
from gilk.targets.frames import (
    FRAME_SIZE,
    NOTE_MAGIC,
    ContextRegisters,
    SignalFrame,
    frame_at,
    registers_of,
    signal_frames,
)
from gilk.targets.memory import ProcessMemory

RESTORER, AMID = 0x45EEA0, 0x671497
RSP, RIP = 8 + 40 + 15 * 8, 8 + 40 + 16 * 8
SELECTORS, CODE = 8 + 40 + 18 * 8, 0x2B_0000_0000_0033  # ss, fs, gs, cs
ALTERNATE, ALTERNATE_SIZE = 8 + 16, 8 + 32
LOW, HIGH, SIZE = 0x1000, 0x8000, 0x10000


class Arena:
    """Memory with two stacks in it; a frame lies a little above the stack pointer of the lower one."""

    def __init__(self) -> None:
        self._room = ctypes.create_string_buffer(SIZE + 8)
        self.base = ctypes.addressof(self._room) + 7 & -8
        self.put(LOW + 0x100, HIGH)

    def put(self, at: int, rsp: int, selectors: int = CODE) -> None:
        for offset, word in ((0, RESTORER), (RSP, self.base + rsp), (RIP, AMID), (SELECTORS, selectors)):
            ctypes.c_uint64.from_address(self.base + at + offset).value = word

    def put_aside(self, at: int, rsp: int, stack: int, size: int) -> None:
        """Put a frame at ``at``, with an alternate signal stack of that place and size."""
        self.put(at, rsp)
        for offset, word in ((ALTERNATE, self.base + stack), (ALTERNATE_SIZE, size)):
            ctypes.c_uint64.from_address(self.base + at + offset).value = word

    def bounds(self, address: int) -> tuple[int, int] | None:
        return (self.base, self.base + SIZE) if self.base <= address < self.base + SIZE else None

    def found(self, *starts: int) -> set[int]:
        """The places where frames begin, as offsets in the arena."""
        with ProcessMemory(os.getpid()) as memory:
            frames = signal_frames([self.base + at for at in starts], frozenset((RESTORER,)), self.bounds, memory)
            return {frame.slot - RIP - self.base for frame in frames if frame.rip == AMID}


@pytest.mark.parametrize("starts", [(LOW, HIGH), (HIGH, LOW), (LOW,)])
def test_frames_are_found_on_two_stacks_in_one_mapping(starts: tuple[int, ...]) -> None:
    assert Arena().found(*starts) == {LOW + 0x100}


def test_a_frame_may_lie_across_the_start_of_the_search() -> None:
    arena = Arena()
    arena.put(HIGH - 0x40, HIGH + 0x800)
    assert arena.found(LOW, HIGH) == {LOW + 0x100, HIGH - 0x40}


def test_a_frame_leads_to_a_lower_stack_of_the_mapping() -> None:
    arena = Arena()
    arena.put(HIGH + 0x100, LOW)
    assert arena.found(HIGH) == {LOW + 0x100, HIGH + 0x100}


ALTERNATE_STACK = HIGH + 0x1000


@pytest.mark.parametrize(
    ("starts", "led"),
    [
        ((LOW,), False), ((LOW, HIGH), False), ((ALTERNATE_STACK + 0x1000,), False),
        ((ALTERNATE_STACK + 0x80, LOW), True), ((LOW, ALTERNATE_STACK + 0x80), True),
        ((ALTERNATE_STACK,), True), ((ALTERNATE_STACK + 0xFF8, LOW), True),
    ],
)  # fmt: skip
def test_an_abandoned_frame_on_an_alternate_stack_is_not_found(starts: tuple[int, ...], led: bool) -> None:
    """No thread is on that stack, so none will use the frame, although the mapping has a stack in use."""
    arena = Arena()
    arena.put_aside(ALTERNATE_STACK + 0x400, HIGH + 0x3000, ALTERNATE_STACK, 0x1000)
    assert (ALTERNATE_STACK + 0x400 in arena.found(*starts)) is led


def test_a_frame_leads_to_one_on_an_alternate_stack() -> None:
    """A handler was interrupted on the alternate stack, and the second handler runs elsewhere."""
    arena = Arena()
    arena.put_aside(ALTERNATE_STACK + 0x400, HIGH, ALTERNATE_STACK, 0x1000)
    arena.put(LOW + 0x100, ALTERNATE_STACK + 0x200)
    assert arena.found(LOW) == {LOW + 0x100, ALTERNATE_STACK + 0x400}


@pytest.mark.parametrize("selectors", [0, 0x7FFF_1234_5678, CODE | 1 << 16, CODE + 1])
def test_a_stray_restorer_address_is_no_frame(selectors: int) -> None:
    """Go's runtime has the restorer's address on stacks, where it passes it to sigaction(2)."""
    arena = Arena()
    arena.put(HIGH + 0x100, LOW, selectors)
    assert arena.found(LOW) == {LOW + 0x100}


class Bytes:
    """Memory that consists of pieces: address: content. ``start`` is the address of the first."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = {at: bytearray(content) for at, content in pieces.items()}
        self.start = min(pieces)

    def read(self, address: int, size: int) -> bytes:
        at = max(at for at in self._pieces if at <= address)
        return bytes(self._pieces[at][address - at : address - at + size])

    some = read

    def write(self, address: int, data: bytes) -> None:
        at = max(at for at in self._pieces if at <= address)
        self._pieces[at][address - at : address - at + len(data)] = data

    def frame(self) -> SignalFrame:
        return frame_at(self.read(self.start, FRAME_SIZE), self.start, 0)


OLD, NEW, SHOWN = 0x900010, 0x1008, 0x1008
SECOND = SecondFrame(code=0x900800, at=0x40000)
STATE, STATE_AT = bytes(range(256)) * 2 + bytes(64), 0x20000  # an extended state without a size of its own


#: A handler sees the original rax, rcx and flags, which a patch has saved in the words from its stack pointer on, 136
#: bytes below the original one (GILK_FRAME_..., native/abi/gilk_abi.h).
EXCHANGED = 0b11 | 1 << 16 | 17 << 20
UNDER_WAY = 1 << 17
IN_PATCH, ZERO, CARRY = (0x1111, 0x2222), 1 << 6, 1
FLAGS_AT = 48 + 8 * 17


def at_place(start: int, noted: bool, frame: int = 0) -> Bytes:
    """Memory with a signal frame at ``start``, and room for a second frame. ``noted``: there is a note on it, with
    ``frame``."""
    content = bytearray(FRAME_SIZE + 64)
    for number in range(16):
        content[48 + 8 * number : 56 + 8 * number] = (number + 1).to_bytes(8, "little")
    content[168:176] = (start + 0x400).to_bytes(8, "little")  # rsp
    content[176:184] = (SHOWN if noted else OLD).to_bytes(8, "little")
    content[232:240] = STATE_AT.to_bytes(8, "little")
    if noted:
        note = (NOTE_MAGIC, OLD, SHOWN, start + 0x400, frame)
        content[240:280] = b"".join(word.to_bytes(8, "little") for word in note)
    content[FLAGS_AT : FLAGS_AT + 8] = CARRY.to_bytes(8, "little")
    saved = b"".join(word.to_bytes(8, "little") for word in (*IN_PATCH, ZERO))
    return Bytes({start: bytes(content), start + 0x400 - 136: saved, STATE_AT: STATE, SECOND.at: bytes(4096)})


def goes_on_with(memory: Bytes) -> ContextRegisters | None:
    """The registers with which the context goes on, by the second frame if it is led there."""
    found = registers_of(memory.frame(), memory)
    if found is None or found.rip != SECOND.code:
        return found
    assert found.general[4] == SECOND.at
    assert memory.read(int.from_bytes(memory.read(SECOND.at + 224, 8), "little"), 512) == STATE[:512]
    return registers_of(frame_at(bytes(8) + memory.read(SECOND.at, FRAME_SIZE), SECOND.at - 8, 0), memory)


@pytest.mark.parametrize("second", [None, SECOND], ids=["one-frame", "two-frames"])
@pytest.mark.parametrize(("noted", "exchanged"), [(False, 0), (True, 0), (True, EXCHANGED)])
@pytest.mark.parametrize("target", [NEW, NEW + 8], ids=["shown", "elsewhere"])
@pytest.mark.parametrize(("depth", "more"), [(0, 0), (136, 0), (136, 1)])
def test_a_context_goes_on_with_registers_of_one_kind_if_writing_stops_anywhere(
    noted: bool, exchanged: int, target: int, depth: int, more: int, second: SecondFrame | None
) -> None:
    """The frame lies at each place of a page; the context goes on with the old registers or with the new ones, with the
    address that belongs to them, after each of the writes, and when they are undone."""
    rewrites = 0
    places = range(0x10000 - 512, 0x10000, 8)
    for start in places:
        memory = at_place(start, noted, exchanged)
        before = goes_on_with(memory)
        assert before is not None and before.rip == OLD
        general = [value + more for value in before.general]
        general[4] += depth
        after = replace(before, general=tuple(general), rip=target, stored=())
        pieces = rewritten(memory.frame(), after, memory, second)
        rewrites += bool(pieces)
        for piece in pieces:
            if second is None or piece.at != second.at:
                assert memory.read(piece.at, len(piece.before)) == piece.before
            memory.write(piece.at, piece.data)
            assert goes_on_with(memory) in (before, after), hex(start)
        assert not pieces or registers_of(memory.frame(), memory) == after
        for piece in reversed(pieces):
            memory.write(piece.at, piece.before)
            assert goes_on_with(memory) in (before, after), hex(start)
        assert not pieces or registers_of(memory.frame(), memory) == before
    #: The kernel puts no frame where the stack pointer is the last word of a page (its frames are at 8 of 16).
    apart = sum((start + RSP + 8) % 4096 == 0 for start in places)
    assert rewrites > 40 and (second is None or rewrites >= len(places) - apart)


def test_a_frame_with_the_original_state_has_the_registers_of_the_patch_in_its_words() -> None:
    memory = at_place(0x10000, True, EXCHANGED)
    found, frame = registers_of(memory.frame(), memory), memory.frame()
    shown = goes_on_with(at_place(0x10000, False))
    assert found is not None and shown is not None and frame.is_whole
    below = 0x10400 - 136
    assert found.general == (*IN_PATCH, *shown.general[2:4], below, *shown.general[5:])
    assert (found.rip, found.flags, shown.flags) == (OLD, ZERO, CARRY)
    assert found.stored == ((below, shown.general[0]), (below + 8, shown.general[1]), (below + 16, 1 << 8))


def test_registers_that_are_just_being_exchanged_are_not_known() -> None:
    """Nor does the stack pointer have to be the one that was noted, yet."""
    memory = at_place(0x10000, True, EXCHANGED | UNDER_WAY)
    memory.write(0x10000 + 168, bytes(8))
    frame = memory.frame()
    assert frame.note is not None and not frame.is_whole and registers_of(frame, memory) is None


@pytest.mark.parametrize(("target", "there"), [(SHOWN, ()), (NEW + 8, ((0x10000 + 176, NEW + 8),))])
def test_a_frame_with_the_original_state_only_loses_its_note(target: int, there: tuple[tuple[int, int], ...]) -> None:
    """It goes elsewhere first, if it has to: the registers are those that it has there, too."""
    frame = at_place(0x10000, True, EXCHANGED).frame()
    assert frame.moved(target) == (*there, (0x10000 + 240, 0))

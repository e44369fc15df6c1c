# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal frames are found on every stack that a stack pointer leads to, also if several stacks lie in one mapping."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace

import pytest

from gilk.targets.frames import FRAME_SIZE, NOTE_MAGIC, frame_at, registers_of, rewritten, signal_frames
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
    """Memory that consists of a few bytes at START."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        self.start = 0

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.content[address - self.start : address - self.start + size])

    some = read

    def write(self, address: int, data: bytes) -> None:
        self.content[address - self.start : address - self.start + len(data)] = data


OLD, NEW, SHOWN = 0x900010, 0x1008, 0x1008


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("target", [NEW, NEW + 8], ids=["shown", "elsewhere"])
@pytest.mark.parametrize("depth", [0, 136])
def test_a_context_goes_on_with_registers_of_one_kind_if_writing_stops_anywhere(
    noted: bool, target: int, depth: int
) -> None:
    """The frame lies at each place of a page; its restored registers are the old ones or the new ones, with the address
    that belongs to them, after each of the writes."""
    rewrites = 0
    for start in range(0x10000 - 512, 0x10000, 8):
        content = bytearray(FRAME_SIZE + 64)
        for number in range(16):
            content[48 + 8 * number : 56 + 8 * number] = (number + 1).to_bytes(8, "little")
        content[168:176] = (start + 0x400).to_bytes(8, "little")  # rsp
        content[176:184] = (SHOWN if noted else OLD).to_bytes(8, "little")
        if noted:
            note = (NOTE_MAGIC, OLD, SHOWN, start + 0x400)
            content[240:272] = b"".join(word.to_bytes(8, "little") for word in note)
        memory = Bytes(bytes(content))
        memory.start = start
        before = registers_of(frame_at(content, start, 0), memory)
        assert before is not None and before.rip == OLD
        general = list(before.general)
        general[4] += depth
        after = replace(before, general=tuple(general), rip=target)
        pieces = rewritten(frame_at(content, start, 0), after, memory)
        rewrites += bool(pieces)
        for piece in pieces:
            assert memory.read(piece.at, len(piece.before)) == piece.before
            memory.write(piece.at, piece.data)
            assert registers_of(frame_at(memory.content, start, 0), memory) in (before, after), hex(start)
        assert not pieces or registers_of(frame_at(memory.content, start, 0), memory) == after
    assert rewrites > 40

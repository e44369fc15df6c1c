# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds signal frames on the stacks of a stopped thread.

A thread inside a signal handler will go back, through its signal frame, to where it was interrupted: that address
counts as a place where it stands. On x86-64 the frame is {restorer address, ucontext, siginfo} (struct rt_sigframe,
arch/x86/include/asm/sigframe.h), and every restorer is ``mov $15, %rax; syscall`` (glibc, musl). A restorer's address
in memory alone does not make a frame: programs pass it to sigaction(2), and copies of that lie about.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from typing import Final

from gilk.arch import asm
from gilk.targets.bounds import Bounds
from gilk.targets.maps import Mapping
from gilk.targets.memory import Memory, stretches
from gilk.values import dataclass

_RESTORER = bytes.fromhex("48c7c00f0000000f05")
_RSP, _RIP = 8 + 40 + 15 * 8, 8 + 40 + 16 * 8
_ALTERNATE = 8 + 16  # uc_stack in the frame: the alternate signal stack of the thread
#: Bytes from a frame to the stack pointer, at most: the red zone, and the vector state with AMX (11 KiB) lie between.
_MOST_BELOW = 1 << 14
_MOST_STACK = 64 << 20
_MOST_STACKS = 64  # of one thread; a program can write frames that lead anywhere
_NOTE = 8 + 232  # GILK_NOTE in the ucontext, native/abi/gilk_abi.h
NOTE_MAGIC: Final = 0x9D1C5A3B6B6C6967
FRAME_SIZE: Final = _NOTE + 40  # bytes of a frame that are read
_WORD, NOTE_WORDS, _STACK = struct.Struct("<Q"), struct.Struct("<5Q"), struct.Struct("<QI4xQ")
#: The general registers in a frame, by their numbers, in the order of struct sigcontext_64; behind them are rip and the
#: flags.
ORDER: Final = (8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4)
REGISTERS = struct.Struct(f"<{len(ORDER) + 2}Q")
_SYSCALL_IN_RESTORER = 7
_SELECTORS, _SELECTORS_AT = struct.Struct("<3H"), 8 + 40 + 18 * 8  # cs, gs, fs (struct sigcontext_64)
#: The selectors that the kernel writes (put_sigcontext, arch/x86/kernel/signal.c): of 64-bit and of 32-bit code, and
#: those of a guest of Xen's without hardware support (FLAT_RING3_CS64, xen/interface/xen.h).
_KERNELS = tuple((code, 0, 0) for code in (0x33, 0x23, 0xE033, 0xE023))


#: Parts of struct gilk_note, frame (GILK_FRAME_... of native/abi/gilk_abi.h).
_FLAGS, _UNDER_WAY, _DEPTH, _WORDS, _FIELD = 16, 1 << 17, 20, 32, 0xFFF
_ARITHMETIC, _BY_LAHF, _OVERFLOW = 0x8D5, 0xD5, 1 << 11


@dataclass(frozen=True, slots=True)
class ContextRegisters:
    """The registers of a context: ``general`` in the order of their numbers (rax, rcx, rdx, rbx, rsp, ...).
    ``stored``: words of its stack, (address, value), that hold something else just now."""

    general: tuple[int, ...]
    flags: int
    rip: int
    stored: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """The runtime's note on a signal frame (struct gilk_note) at address ``at``: the thread was at ``actual``, and its
    handler sees ``shown``. ``frame``: how the registers that the handler sees differ from those at ``actual``; 0: not
    at all."""

    at: int
    actual: int
    shown: int
    frame: int = 0

    @property
    def under_way(self) -> bool:
        """Whether the runtime is just exchanging the registers that the handler sees."""
        return bool(self.frame & _UNDER_WAY)


@dataclass(frozen=True, slots=True)
class SignalFrame:
    """A signal frame. ``slot`` is the address at which the interrupted ``rip`` is stored; ``restorer`` is where the
    handler returns to; ``note`` is the runtime's note on it, if there is one; ``alternate`` the start and the end of
    the alternate signal stack on which the frame lies, None if it lies on another stack."""

    slot: int
    rip: int
    rsp: int
    restorer: int
    note: Note | None = None
    alternate: tuple[int, int] | None = None

    @property
    def is_below(self) -> bool:
        """Whether the frame lies where the kernel puts one: a little below the stack pointer that was interrupted, or
        on the alternate stack."""
        return self.alternate is not None or 0 < self.rsp - self.slot < _MOST_BELOW

    @property
    def is_whole(self) -> bool:
        """Whether the frame has the original state of a thread that was interrupted amid a patch: without its note, the
        thread goes on without the patch."""
        note = self.note
        return note is not None and note.frame != 0 and not note.under_way and self.rip == note.shown

    @property
    def place(self) -> int:
        """The address at which the thread will go on."""
        return self.note.actual if self.note and self.rip == self.note.shown else self.rip

    def moved(self, address: int) -> tuple[tuple[int, int], ...]:
        """The writes, (address, value), after which the thread goes on at ``address``; also if the runtime was
        interrupted while it wrote the note, before the handler was shown anything. A frame that has the original state
        already only loses its note."""
        note = self.note
        if note is None or self.rip not in (note.shown, note.actual):
            return ((self.slot, address),)
        if note.frame:
            there = () if address == self.rip else ((self.slot, address),)
            return (*there, (note.at, 0))
        shown = ((note.at + 16, address),) if self.rip == note.shown else ()
        return (self.slot, address), (note.at + 8, address), *shown


def registers_of(frame: SignalFrame, memory: Memory) -> ContextRegisters | None:
    """The registers with which the context of the frame goes on, with ``rip`` where it does; None if they cannot be
    read, or are just being exchanged."""
    content = memory.some(frame.slot - 8 * len(ORDER), REGISTERS.size)
    if len(content) < REGISTERS.size:
        return None
    *words, _, flags = REGISTERS.unpack(content)
    general = dict(zip(ORDER, words, strict=True))
    found = ContextRegisters(tuple(general[number] for number in range(len(ORDER))), flags, frame.place)
    if frame.note is not None and frame.note.under_way:
        return None
    return _exchanged(found, frame.note.frame, memory) if frame.note is not None and frame.is_whole else found


def _exchanged(shown: ContextRegisters, how: int, memory: Memory) -> ContextRegisters | None:
    """The registers of a patch, of which a handler sees ``shown`` instead; None if they cannot be read."""
    general = list(shown.general)
    general[asm.RSP] -= 8 * (how >> _DEPTH & _FIELD)
    first = general[asm.RSP] + 8 * (how >> _WORDS & _FIELD)
    numbers = [number for number in range(_FLAGS + 1) if how >> number & 1]
    content, flags, stored = memory.some(first, 8 * len(numbers)), shown.flags, []
    if len(content) < 8 * len(numbers):
        return None
    for index, number in enumerate(numbers):
        (word,), at = _WORD.unpack_from(content, 8 * index), first + 8 * index
        if number == _FLAGS:
            stored.append((at, (flags & _BY_LAHF) << 8 | bool(flags & _OVERFLOW)))
            flags = word & _ARITHMETIC | flags & ~_ARITHMETIC
        else:
            stored.append((at, general[number]))
            general[number] = word
    return ContextRegisters(tuple(general), flags, shown.rip, tuple(stored))


def find_restorers(maps: tuple[Mapping, ...], memory: Memory) -> frozenset[int]:
    """The addresses of all restorers in the code of the process."""
    found = set()
    code = (each for each in maps if each.executable and not each.ours and not each.path.startswith("["))
    for start, content in stretches(sorted(code, key=lambda each: not each.path), memory, len(_RESTORER)):
        at = content.find(_RESTORER)
        while at >= 0:
            found.add(start + at)
            at = content.find(_RESTORER, at + 1)
    return frozenset(found)


def hidden_restorers(pieces: list[tuple[int, bytes]], memory: Memory) -> frozenset[int]:
    """The addresses of restorers that will be there once ``pieces``, (address, original), have been put back."""
    originals = {address + at: byte for address, original in pieces for at, byte in enumerate(original)}
    found, reach = set[int](), len(_RESTORER) - 1
    for address, original in pieces:
        start, now = address - reach, memory.some(address - reach, len(original) + 2 * reach)
        content = bytes(originals.get(start + at, byte) for at, byte in enumerate(now))
        at = content.find(_RESTORER)
        if at >= 0:
            found.add(start + at)
    return frozenset(found)


def is_original(restorer: int, memory: Memory) -> bool:
    """Whether the restorer's code is unpatched, so that gilk's code does not lead the handler's thread back by a
    note."""
    return memory.some(restorer, len(_RESTORER)) == _RESTORER


def returning(rip: int, restorers: frozenset[int]) -> bool:
    """Whether ``rip`` is in a restorer: the first word of the frame, the restorer's address, has been popped then."""
    return rip in restorers or rip - _SYSCALL_IN_RESTORER in restorers


def signal_frames(
    starts: list[int], restorers: frozenset[int], bounds: Bounds, memory: Memory
) -> Iterator[SignalFrame]:
    """All signal frames from these stack pointers upwards, and those on other stacks that the frames lead to.

    A frame may come more than once: several stacks may lie in one mapping, as those of goroutines do. A frame on an
    alternate signal stack that no stack pointer leads to is left out: it remains from a handler that has ended.
    """
    todo, lowest = [start & -8 for start in starts], dict[tuple[int, int], int]()  # mapping: lowest address searched
    stacks = _AlternateStacks()
    while todo:
        start = todo.pop()
        ready = stacks.reach(start)
        stack = bounds(start)
        if stack is not None and (stack in lowest or len(lowest) < _MOST_STACKS):
            searched = lowest.get(stack, stack[1])
            if start < searched:
                lowest[stack] = start
                end = min(searched + FRAME_SIZE, stack[1], start + _MOST_STACK)
                ready += [each for each in _frames_in(start, end, restorers, memory) if stacks.lead_to(each)]
        for frame in ready:
            yield frame
            todo.append(frame.rsp & -8)


class _AlternateStacks:
    """Finds the frames on alternate signal stacks that stack pointers lead to, in whatever order frames and pointers
    are found."""

    def __init__(self) -> None:
        self._pointers: list[int] = []
        self._waiting: dict[tuple[int, int], list[SignalFrame]] = {}

    def reach(self, pointer: int) -> list[SignalFrame]:
        """Add a stack pointer; returns the frames found before that lie on its alternate stack."""
        bisect.insort(self._pointers, pointer)
        led = [stack for stack in self._waiting if stack[0] <= pointer < stack[1]]
        return [frame for stack in led for frame in self._waiting.pop(stack)]

    def lead_to(self, frame: SignalFrame) -> bool:
        """Whether a known stack pointer leads to the frame. If not, the frame is kept until one does."""
        stack = frame.alternate
        if stack is None:
            return True
        at = bisect.bisect_left(self._pointers, stack[0])
        if at < len(self._pointers) and self._pointers[at] < stack[1]:
            return True
        if stack not in self._waiting and len(self._waiting) == _MOST_STACKS:
            return True
        self._waiting.setdefault(stack, []).append(frame)
        return False


def _frames_in(start: int, end: int, restorers: frozenset[int], memory: Memory) -> Iterator[SignalFrame]:
    try:
        content = memory.read(start, end - start)
    except OSError:
        return
    for restorer in restorers:
        for at in aligned(content, restorer.to_bytes(8, "little")):
            if is_frame(content, at):
                yield frame_at(content, start, at)


def frames_in_copy(content: bytes, start: int, memory: Memory) -> Iterator[SignalFrame]:
    """The signal frames in ``content``, a copy of a stack from address ``start`` on, that lead back by a restorer of
    the process."""
    for at in aligned(content, _SELECTORS.pack(*_KERNELS[0])):
        begin = at - _SELECTORS_AT
        if begin >= 0 and is_original(_WORD.unpack_from(content, begin)[0], memory):
            yield frame_at(content, start, begin)


def is_frame(content: bytes, at: int) -> bool:
    """Whether the kernel has made a frame of the content that begins at ``at`` with the address of a restorer."""
    end = _SELECTORS_AT + _SELECTORS.size
    return at + end <= len(content) and _SELECTORS.unpack_from(content, at + _SELECTORS_AT) in _KERNELS


def frame_at(content: bytes, start: int, at: int) -> SignalFrame:
    """The frame at offset ``at`` of ``content``, memory that begins at address ``start``."""
    (rip,), (rsp,) = _WORD.unpack_from(content, at + _RIP), _WORD.unpack_from(content, at + _RSP)
    (restorer,), note = _WORD.unpack_from(content, at), _note_in(content, start, at + _NOTE, rsp)
    return SignalFrame(start + at + _RIP, rip, rsp, restorer, note, _alternate(content, start, at))


def _alternate(content: bytes, start: int, at: int) -> tuple[int, int] | None:
    low, _, size = _STACK.unpack_from(content, at + _ALTERNATE)
    return (low, low + size) if low <= start + at < low + size else None


def _note_in(content: bytes, start: int, at: int, rsp: int) -> Note | None:
    if at + NOTE_WORDS.size > len(content):
        return None
    magic, actual, shown, noted, frame = NOTE_WORDS.unpack_from(content, at)
    belongs = magic == NOTE_MAGIC and (noted == rsp or frame & _UNDER_WAY)
    return Note(start + at, actual, shown, frame) if belongs else None


def aligned(content: bytes, word: bytes) -> Iterator[int]:
    """The offsets of ``word`` in ``content`` that are multiples of 8."""
    at = content.find(word)
    while at >= 0:
        if not at & 7:
            yield at
        at = content.find(word, at + 1)

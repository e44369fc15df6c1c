# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal frames on the stacks of a stopped thread.

A thread inside a signal handler will go back, through its signal frame, to
where it was interrupted: that address counts as a place where it stands. On
x86-64 the frame is {restorer address, ucontext, siginfo} (struct rt_sigframe,
arch/x86/include/asm/sigframe.h), and every restorer is
``mov $15, %rax; syscall`` (glibc, musl).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.target.bounds import Bounds
from gilk.target.maps import Mapping
from gilk.target.memory import Memory, stretches
from gilk.values import dataclass

_RESTORER = bytes.fromhex("48c7c00f0000000f05")
_RSP, _RIP = 8 + 40 + 15 * 8, 8 + 40 + 16 * 8
_MOST_STACK = 64 << 20
_MOST_STACKS = 64  # of one thread; what is written there may lead anywhere
_SIGNALS, _SLOTS = 1024, 16
_WORD, _SHOWN = struct.Struct("<Q"), struct.Struct("<4Q")
_SYSCALL_IN_RESTORER = 7


@dataclass(frozen=True, slots=True)
class SignalFrame:
    """``slot`` is where in memory the interrupted ``rip`` is kept."""

    slot: int
    rip: int
    rsp: int

    @property
    def context(self) -> int:
        """Address of the ucontext."""
        return self.slot - _RIP + 8


@dataclass(frozen=True, slots=True)
class Shown:
    """struct gilk_signal: the thread was at ``actual``, its handler sees ``shown``; ``slot`` is where that is noted."""

    slot: int
    actual: int
    shown: int

    def moved(self, address: int) -> tuple[tuple[int, int], ...]:
        """What to write where, if it is to go on at ``address`` and its handler has been shown that."""
        return (self.slot + 8, address), (self.slot + 16, address)


def shown_signals(block: int, memory: Memory) -> dict[int, Shown]:
    """What the block at ``block`` notes, by address of the ucontext (native/abi/gilk_abi.h, GILK_SIGNALS)."""
    rows = _SHOWN.iter_unpack(memory.read(block + _SIGNALS, _SHOWN.size * _SLOTS))
    return {row[0]: Shown(block + _SIGNALS + _SHOWN.size * n, row[1], row[2]) for n, row in enumerate(rows) if row[0]}


def find_restorers(maps: tuple[Mapping, ...], memory: Memory) -> frozenset[int]:
    """Addresses of every restorer in the code of the process."""
    found = set()
    code = (each for each in maps if each.executable and not each.ours and not each.path.startswith("["))
    for start, content in stretches(sorted(code, key=lambda each: not each.path), memory, len(_RESTORER)):
        at = content.find(_RESTORER)
        while at >= 0:
            found.add(start + at)
            at = content.find(_RESTORER, at + 1)
    return frozenset(found)


def returning(rip: int, restorers: frozenset[int]) -> bool:
    """In a restorer: the first word of its frame, the restorer's address, has been popped."""
    return rip in restorers or rip - _SYSCALL_IN_RESTORER in restorers


def signal_frames(
    rsp: int, restorers: frozenset[int], bounds: Bounds, memory: Memory
) -> Iterator[SignalFrame]:
    """All frames from ``rsp`` up; where one leads to another stack, those on it too."""
    todo, seen = [rsp & -8], set[tuple[int, int]]()
    while todo:
        start = todo.pop()
        stack = bounds(start)
        if stack is None or stack in seen or len(seen) == _MOST_STACKS:
            continue
        seen.add(stack)
        for frame in _frames_in(start, min(stack[1], start + _MOST_STACK), restorers, memory):
            yield frame
            if not stack[0] <= frame.rsp < stack[1]:
                todo.append(frame.rsp & -8)


def _frames_in(start: int, end: int, restorers: frozenset[int], memory: Memory) -> Iterator[SignalFrame]:
    try:
        content = memory.read(start, end - start)
    except OSError:
        return
    for restorer in restorers:
        for at in _aligned(content, restorer.to_bytes(8, "little")):
            if at + _RIP + 8 <= len(content):
                (rip,), (rsp,) = _WORD.unpack_from(content, at + _RIP), _WORD.unpack_from(content, at + _RSP)
                yield SignalFrame(start + at + _RIP, rip, rsp)


def _aligned(content: bytes, word: bytes) -> Iterator[int]:
    """Where it is, at multiples of 8."""
    at = content.find(word)
    while at >= 0:
        if not at & 7:
            yield at
        at = content.find(word, at + 1)

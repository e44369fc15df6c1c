# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal frames on the stacks of a stopped thread.

A thread inside a signal handler will go back, through its signal frame, to
where it was interrupted: that address counts as a place where it stands. On
x86-64 the frame is {restorer address, ucontext, siginfo} (struct rt_sigframe,
arch/x86/include/asm/sigframe.h), and every restorer is
``mov $15, %rax; syscall`` (glibc, musl).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gilk.target.maps import Mapping
from gilk.target.memory import Memory

_RESTORER = bytes.fromhex("48c7c00f0000000f05")
_RSP, _RIP = 8 + 40 + 15 * 8, 8 + 40 + 16 * 8
_MOST_STACK = 64 << 20
_SIGNALS, _SLOTS = 1024, 16
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


def shown_signals(block: int, memory: Memory) -> dict[int, Shown]:
    """What the block at ``block`` notes, by address of the ucontext (native/abi/gilk_abi.h, GILK_SIGNALS)."""
    rows = np.frombuffer(memory.read(block + _SIGNALS, 32 * _SLOTS), np.uint64).reshape(_SLOTS, 4).tolist()
    return {row[0]: Shown(block + _SIGNALS + 32 * n, row[1], row[2]) for n, row in enumerate(rows) if row[0]}


def find_restorers(maps: tuple[Mapping, ...], memory: Memory) -> frozenset[int]:
    """Addresses of every restorer in the code of the process."""
    found = set()
    for mapping in maps:
        if not mapping.executable or mapping.path.startswith(("[", "/memfd:gilk")):
            continue
        try:
            code = memory.read(mapping.start, mapping.end - mapping.start)
        except OSError:
            continue
        at = code.find(_RESTORER)
        while at >= 0:
            found.add(mapping.start + at)
            at = code.find(_RESTORER, at + 1)
    return frozenset(found)


def returning(rip: int, restorers: frozenset[int]) -> bool:
    """In a restorer: the first word of its frame, the restorer's address, has been popped."""
    return rip in restorers or rip - _SYSCALL_IN_RESTORER in restorers


def signal_frames(
    rsp: int, restorers: frozenset[int], maps: tuple[Mapping, ...], memory: Memory
) -> Iterator[SignalFrame]:
    """All frames from ``rsp`` up; where one leads to another stack, those on it too."""
    wanted = np.array(sorted(restorers), np.uint64)
    todo, seen = [rsp & -8], set()
    while todo:
        start = todo.pop()
        mapping = next((m for m in maps if m.start <= start < m.end), None)
        if mapping is None or mapping in seen:
            continue
        seen.add(mapping)
        for frame in _frames_in(start, min(mapping.end, start + _MOST_STACK), wanted, memory):
            yield frame
            if not mapping.start <= frame.rsp < mapping.end:
                todo.append(frame.rsp & -8)


def _frames_in(start: int, end: int, wanted: np.ndarray, memory: Memory) -> Iterator[SignalFrame]:
    try:
        content = memory.read(start, end - start)
    except OSError:
        return
    words = np.frombuffer(content[: len(content) & -8], np.uint64)
    for index in np.flatnonzero(np.isin(words, wanted)).tolist():
        rip, rsp = index + _RIP // 8, index + _RSP // 8
        if rip < len(words):
            yield SignalFrame(start + index * 8 + _RIP, int(words[rip]), int(words[rsp]))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds processes that come to execute the target's memory during a session, by a clone(2) that sets no FS base of its
own.

The GS base says where a thread's block is, and the FS base identifies the thread whose block it is: a process that was
cloned with both has its parent's block, and takes it for its own. Threads of C libraries have an FS base of their own.
A child of vfork() is meant to use the block of its parent, which waits meanwhile.
"""

from __future__ import annotations

import contextlib
import struct
from collections import Counter
from collections.abc import Callable, Iterable

from gilk.errors import TargetError
from gilk.targets.held import Held
from gilk.targets.memory import Memory
from gilk.targets.namespaces import own_number
from gilk.targets.ptrace import thread_ids
from gilk.targets.sharing import parent, waits_for_child
from gilk.targets.thread import Thread
from gilk.targets.world import PtracedThreads

_BLOCK = struct.Struct("<20xI8xQ8xQ")  # of struct gilk_block, native/abi/gilk_abi.h: tid, busy, inside


class Newcomers:
    """Looks for such processes. ``held`` is called for the memory that gilk has in the process, at the time of use."""

    def __init__(self, world: PtracedThreads, memory: Memory, held: Callable[[], Held]) -> None:
        self._world = world
        self._memory = memory
        self._held = held
        self._done: set[int] = set()  # processes whose threads have all been dealt with

    def look(self) -> list[str]:
        """Have the newcomers find blocks of their own; returns a note for each process that used another's block."""
        there = set(self._world.sharing.others())
        self._done &= there
        fresh = [pid for pid in sorted(there - self._done) if not waits_for_child(parent(pid))]
        return [note for pid in fresh for note in self._look_at(pid)]

    def _look_at(self, pid: int) -> list[str]:
        with contextlib.suppress(TargetError):
            tids = thread_ids(pid)
            try:
                threads = self._world.stop_some(tids)
                sharing = [thread for thread in threads.values() if self._is_anothers(thread)]
                if not give_own(sharing, self._held(), self._memory) and len(threads) == len(tids):
                    self._done.add(pid)
            finally:
                self._world.resume()
            if sharing and pid in self._done:
                return [
                    f"process {pid} was made to share memory and thread pointer of process {self._world.pid}: until "
                    "gilk saw that, both wrote to one buffer, and what came from there is not to be relied on"
                ]
        return []

    def _is_anothers(self, thread: Thread) -> bool:
        base = thread.registers.gs_base
        if not self._held().is_block(base):
            return False
        owner, _, _ = _block(base, self._memory)
        return owner not in (0, thread.tid, own_number(thread.tid))


def in_common(threads: Iterable[Thread], held: Held) -> list[Thread]:
    """The threads that share both block and FS base with another of them."""
    threads = [thread for thread in threads if held.is_block(thread.registers.gs_base)]
    bases = Counter((thread.registers.gs_base, thread.registers.fs_base) for thread in threads)
    return [thread for thread in threads if bases[thread.registers.gs_base, thread.registers.fs_base] > 1]


def give_own(threads: Iterable[Thread], held: Held, memory: Memory) -> list[Thread]:
    """Send stopped threads that use another thread's block to find one of their own; returns those that cannot yet,
    because they are inside a patch or an instrument."""
    left = []
    for thread in threads:
        owner, busy, inside = _block(thread.registers.gs_base, memory)
        if owner in (thread.tid, own_number(thread.tid)):
            continue
        if held.in_arena(thread.registers.rip) or busy or inside:
            left.append(thread)
        else:
            thread.attach_block(held.data)
    return left


def _block(base: int, memory: Memory) -> tuple[int, int, int]:
    """The fields tid, busy and inside of the block at ``base``; 0 if the program has made it unreadable."""
    tid, busy, inside = _BLOCK.unpack(memory.some(base, _BLOCK.size).ljust(_BLOCK.size, b"\0"))
    return tid, busy, inside

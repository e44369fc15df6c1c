# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process of this machine, which the keeper reaches by ptrace(2), /proc and system calls that the process's own
threads make."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Final

from gilk.errors import TargetError
from gilk.targets.alive import cpu_time, has_ended, thread_with_memory
from gilk.targets.another_program import began_of, program_gone
from gilk.targets.bounds import Bounds, bounds_in
from gilk.targets.frames import SignalFrame
from gilk.targets.held import Held
from gilk.targets.maps import Mapping, holders, program_of, read_maps
from gilk.targets.memory import ProcessMemory
from gilk.targets.newcomers import Newcomers
from gilk.targets.parked import parked_frames
from gilk.targets.places import Places
from gilk.targets.refusals import check_alone
from gilk.targets.remote import remote
from gilk.targets.running import Sample, sampled
from gilk.targets.shared_memory import Taken
from gilk.targets.sharing import is_same_memory
from gilk.targets.shelter import Shelter
from gilk.targets.system_calls import SystemCalls
from gilk.targets.tree import ProcessTree
from gilk.targets.world import PtracedThreads

_PATIENCE: Final = 5.0  # seconds, for all heirs together
_LEAST: Final = 0.25  # seconds that a heir has nevertheless


class LinuxProcess:
    """Implements Traced (traced.py). All calls come from one OS thread, as ptrace(2) demands."""

    def __init__(self, pid: int, tree: ProcessTree | None = None) -> None:
        """``tree``: the tree that the process belongs to, if it is followed. Raises TargetError `no-such-process`,
        `no-permission`."""
        self.pid = pid
        self._began = began_of(pid)  # before the memory is opened, so that no program is overlooked
        self.memory = ProcessMemory(pid)
        self.threads = PtracedThreads(pid, tree)
        self.taking = Taken(pid)
        self._late: list[PtracedThreads] = []  # heirs with threads that were asked to stop and have not
        self._newcomers: Newcomers | None = None
        self._patience = _PATIENCE  # what is left for heirs that do not stop: a program may have a thousand of them

    def calls(self) -> AbstractContextManager[SystemCalls]:
        return remote(self.threads, self.memory)

    def shelter(self, place: Shelter | None) -> None:
        self.memory.haven = place

    def check_alone(self, name: str) -> None:
        check_alone(self.pid, name)

    def program(self) -> str:
        return program_of(self.pid)

    def maps(self) -> tuple[Mapping, ...]:
        return read_maps(self.pid)

    def bounds(self) -> AbstractContextManager[Bounds]:
        return bounds_in(self.pid)

    def renew(self) -> bool:
        before, self._began = self._began, began_of(self.pid)
        if before.process != self._began.process:
            raise program_gone(self.pid)  # another process has the number by now
        if self._began == before and not self.memory.has_gone:
            return False
        self.memory.renew(self.pid)
        return True

    def parked(self, restorers: frozenset[int], seen: Collection[int]) -> Iterator[SignalFrame]:
        return parked_frames(self.pid, restorers, self.memory, seen)

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        self.threads.tree.pump()
        time.sleep(seconds)

    def cpu_time(self) -> float:
        return cpu_time(self.pid)

    def lives(self, pid: int) -> bool:
        return not has_ended(pid)

    def sample(self, held: Held, patches: Places, stack: int) -> list[Sample]:
        return sampled(self.threads, self.memory, held, patches, stack)

    def still_has(self, address: int) -> bool:
        """Whether the address space in which gilk has mapped memory at ``address`` is still there. The open memory file
        reads nothing once that has gone (proc(5)), and fails where the program has unmapped the memory or made it
        inaccessible. If another process shares the address space, a fresh memory file is read as well: this process may
        have executed another program by now."""
        try:
            return bool(self.memory.read(address, 1)) and self._has_now(address)
        except OSError:
            return not self.threads.sharing.known or self._has_unreadable(address)

    def _has_unreadable(self, address: int) -> bool:
        """Whether gilk's memory is there, but the process has made it inaccessible."""
        with contextlib.suppress(TargetError):
            return any(each.ours and each.start <= address < each.end for each in self.maps())
        return False

    def _has_now(self, address: int) -> bool:
        """Whether the process has the mapping now, if others share its memory. Raises OSError."""
        if not self.threads.sharing.known:
            return True
        with contextlib.suppress(TargetError), ProcessMemory(self.pid) as now:
            return bool(now.read(address, 1))
        return False

    def look_for_newcomers(self, held: Callable[[], Held]) -> list[str]:
        if self._newcomers is None:
            self._newcomers = Newcomers(self.threads, self.memory, held)
        return self._newcomers.look()

    def release_late(self) -> bool:
        self._late = [world for world in self._late if world.release_late()]
        return self.threads.release_late() or bool(self._late)

    # Forked children, and theirs.

    def heirs(self, name: str) -> list[int]:
        """The pids of the heirs, without processes that share this process's memory, which are stopped with it; of
        several heirs that share one memory only the first."""
        threads = {pid: thread_with_memory(pid) for pid in sorted(holders(name)) if pid != self.pid}
        ours, found = thread_with_memory(self.pid), list[int]()
        for pid, thread in threads.items():
            if not any(is_same_memory(other, thread) for other in (ours, *(threads[each] for each in found))):
                found.append(pid)
        return found

    @contextlib.contextmanager
    def heir(self, pid: int) -> Iterator[LinuxProcess]:
        child, began = LinuxProcess(pid, self.threads.tree), time.monotonic()
        child.threads.patience = max(_LEAST, self._patience)
        try:
            yield child
        except TargetError as error:
            if error.slug == "busy":
                self._patience -= time.monotonic() - began
            raise
        finally:
            if child.threads.release_late():
                self._late.append(child.threads)
            child.memory.close()

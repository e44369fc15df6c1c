# SPDX-License-Identifier: LGPL-2.1-or-later
"""The debug registers of one process from their setting to their end, and its SIGTRAP meanwhile (trapping.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from gilk.errors import GilkError, TargetError
from gilk.targets import launch, ptrace
from gilk.targets.debug_registers import WatchedPiece, refused
from gilk.targets.held import TRAPS_NAME
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.status import status_of
from gilk.targets.trapping import Trapping, ignore, ignore_no_more, ignores
from gilk.targets.tree import ProcessTree

_RECORD = 4096  # bytes


class Traps:
    """The debug registers of a process that ``keeper`` holds."""

    def __init__(self, process: LinuxProcess, keeper: Keeper) -> None:
        self._process, self._keeper = process, keeper
        self._trapping: Trapping | None = None
        self._changed = False  # whether gilk has the process ignore SIGTRAP

    def begin(self, pieces: Sequence[WatchedPiece], enter: int) -> None:
        """Set the registers in all threads. Raises TargetError `no-debug-registers`; call end() then."""
        process, threads = self._process, self._process.threads
        status = status_of(process.pid)
        if threads.tree.stays:
            raise _refused("the keeper follows the processes that this one begins")
        if b"shstk" in status.get(b"x86_Thread_features", b""):
            raise _refused("the program has a shadow stack, and advice returns to where nobody has called it from")
        if not ignores(status):
            self._keeper.mapper.map_record(self._keeper.held.traps_name, _RECORD)
        with threads.stopped() as stopped:
            if set(stopped).difference(ptrace.thread_ids(process.pid)):
                raise _refused("other processes share its memory, and have an action of their own for SIGTRAP")
            self._keeper.attach_blocks(stopped)
            with process.calls() as call:
                self._changed = ignore(call)
            self._trapping = Trapping(process.pid, process.memory, pieces, enter, list(stopped), self._executed)
            threads.tree.trap(self._trapping)
            threads.stay()

    def _executed(self) -> None:
        """Have SIGTRAP end the program that the process has executed, which has inherited that it is ignored, and let
        it run."""
        self._trapping = None
        pid = self._process.pid
        with contextlib.suppress(GilkError, OSError, ptrace.Late):  # it has been killed, or has no room for a call
            if not self._changed:
                ptrace.call(ptrace.DETACH, pid, 0, 0)
                return
            launch.to_user(pid)
            fresh = LinuxProcess(pid, ProcessTree())
            fresh.threads.hold(lone=False)
            try:
                with fresh.calls() as call:
                    ignore_no_more(call)
            finally:
                fresh.threads.release()
                fresh.memory.close()

    def is_safe(self) -> bool:
        """Whether the program could do without the keeper: it ignores SIGTRAP, or is not trapped any more."""
        return self._trapping is None or self._trapping.is_safe()

    def end(self) -> list[str]:
        """Free the registers, and undo what was done to SIGTRAP, also in forked children; returns notes for the
        user."""
        trapping, self._trapping = self._trapping, None
        notes: list[str] = []
        if trapping is not None and self._process.threads.tree.trapper is trapping:
            with contextlib.suppress(GilkError, ProcessLookupError), self._process.threads.stopped():
                self._process.threads.untrap()  # first, for signals that are on their way
                notes = trapping.end()
                self._give_back(self._process)
            trapping.registers.close()
        elif self._changed and self._keeper.present():
            with contextlib.suppress(GilkError, OSError), self._process.threads.stopped():
                self._give_back(self._process)
        for pid in self._process.heirs(self._keeper.held.code_name) if self._changed else ():
            with contextlib.suppress(GilkError, OSError), self._process.heir(pid) as child, child.threads.stopped():
                self._give_back(child)
        return notes

    def _give_back(self, process: LinuxProcess) -> None:
        if self._changed:
            with process.calls() as call:
                ignore_no_more(call)


def _refused(why: str) -> TargetError:
    return refused(f"debug registers cannot lead threads to advice: {why}")


def give_back_abandoned(keeper: Keeper) -> None:
    """Have SIGTRAP end a process again, if a session without a keeper has left a record that it did. Raises
    TargetError."""
    process = keeper.process
    if any(each.path.startswith(f"/memfd:{TRAPS_NAME}") for each in process.maps()):
        with process.threads.stopped(), process.calls() as call:
            ignore_no_more(call)

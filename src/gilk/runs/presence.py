# SPDX-License-Identifier: LGPL-2.1-or-later
"""The fate of the processes of a run: which have ended, or execute another program, and which programs they have
started that have no instruments."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import field

from gilk.errors import GilkError, TargetError
from gilk.targets.alive import is_going
from gilk.targets.process import Process
from gilk.targets.program import has_let_go
from gilk.targets.unseen import Unseen
from gilk.values import dataclass

_PRESENT_EVERY = 0.05  # seconds between looks whether a process still executes its program


@dataclass
class Presence:
    """``ended``: the numbers of processes that have ended, execute another program, or are held by nobody any more;
    ``moved``: those that execute another program."""

    ended: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)
    _unseen: list[Unseen] = field(default_factory=list)
    _looked: float = 0.0

    def watch_for_programs(self, processes: Sequence[Process]) -> None:
        """Notice from now on the programs that the processes start."""
        self._unseen = [Unseen(process.pid) for process in processes]

    def look(self, processes: Sequence[Process]) -> list[str]:
        """Notice processes that have ended or executed another program, and programs that they have started; returns
        remarks about results that are lost."""
        for unseen in self._unseen:
            unseen.look()
        present = time.monotonic() - self._looked > _PRESENT_EVERY
        if present:
            self._looked = time.monotonic()
        remarks = []
        for process in processes:
            if process.pid in self.ended:
                continue
            if not process.alive or (process.launched and process.wait() is not None):
                self.ended.add(process.pid)
            elif (present or not process.keeper.there) and not process.keeper.is_present():
                if not has_let_go(process.pid):
                    self.ended.add(process.pid)
                    self.moved.add(process.pid)
                    remarks.append(f"process {process.pid} executed another program; its probes went with the old one")
            elif not process.keeper.there and not has_let_go(process.pid):
                self.ended.add(process.pid)
                remarks.append(forsaken(process.pid))
        return remarks

    def have_ended(self, processes: Sequence[Process]) -> bool:
        """Whether there are processes, and all have ended."""
        return bool(processes) and len(self.ended) == len(processes)

    def unseen_programs(self) -> list[str]:
        """Remarks about the programs that have been started."""
        return [remark for one in self._unseen if (remark := one.remark)]

    @contextlib.contextmanager
    def unless_ended(self, process: Process, processes: Sequence[Process], notes: list[str]) -> Iterator[None]:
        """A context that ignores the end of a process, if it is one of several and not the last; a note says so."""
        try:
            yield
        except TargetError as error:
            if error.slug != "no-such-process" or not is_going(process.pid):
                raise
            self.ended.add(process.pid)
            if len(self.ended) == len(processes):
                raise
            notes.append(f"process {process.pid} ended before its probes were in")


def forsaken(pid: int) -> str:
    """A remark about a process whose keeper has been killed, or could not be reached."""
    return f"process {pid} is held by nobody any more (keeper-gone): gilk restore {pid} puts its code right"


def let_go(processes: Sequence[Process]) -> None:
    """Let go of the processes. Keepers of launched ones stay: they still have to tell how their programs end."""
    for process in processes:
        if process.launched:
            process.files.close()
            continue
        with contextlib.suppress(GilkError):  # a session has reported the error already
            process.close()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel of another machine that stays while it is looked at, and while runs in it are watched, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gilk.api.d_writing import DWriting
from gilk.engines.dtrace import asked
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.machine import MachineView, OtherMachine
from gilk.engines.follow.kernel_tracing import KernelTracing
from gilk.engines.scan.kernel import KernelSubject
from gilk.runs.elsewhere import Elsewhere, reach
from gilk.runs.live import KernelLiveRun, LiveRun
from gilk.session.request import Request
from gilk.spec.event import Event
from gilk.targets.kernel.channel import Sink
from gilk.targets.kernel.files_link import FilesLink
from gilk.targets.kernel.target import KernelTarget

if TYPE_CHECKING:
    from gilk.runs.experiment.items import Item

__all__ = ["KernelSubject", "WatchedKernel", "watched_kernel"]


class WatchedKernel:
    """Use it as a context manager, or call close(). ``subject``: the kernel for scans, which read it once."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._read()

    def _read(self) -> None:
        self._target = KernelTarget(self._elsewhere.link)
        self.subject = KernelSubject(self._elsewhere.link, self._target)

    def __enter__(self) -> WatchedKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def release(self) -> str:
        """The kernel's release, as uname -r gives it."""
        return self._elsewhere.link.release

    @property
    def console(self) -> str:
        """The console output of the kernel until now; '' if it is not known."""
        return self._elsewhere.console()

    def refresh(self) -> bool:
        """Have the kernel read anew when it is next needed, if modules were loaded or unloaded since; returns whether
        that is so. No session may be in it, since the code would be read with the changes of the session."""
        changed = KernelSubject(self._elsewhere.link).identity != self.subject.identity
        if changed:
            self._read()
        return changed

    def watch(self, descriptors: Sequence[int]) -> None:
        """Wait until one of the descriptors can be read. Raises MachineGone as soon as the machine ends."""
        self._elsewhere.watch(descriptors)

    def live(
        self, requests: Sequence[Request], command: Sequence[str], take: Sink, items: Sequence[Item] = ()
    ) -> LiveRun:
        """A run that is watched, and leaves the kernel when it ends; no probe is in yet. ``command`` runs on the
        machine, if it is not empty, and its output is given to ``take``. ``items``: instruments that come and go, in
        place of ``requests``."""
        where: dict[str, Any] = {"kernel": self._target, "elsewhere": self._elsewhere, "take": take}
        if not items:
            return KernelLiveRun([], list(requests), command=tuple(command), **where)
        from gilk.runs.experiment.live import KernelStagedLiveRun  # imported here: few runs have strategies

        return KernelStagedLiveRun([], [], command=tuple(command), items=list(items), **where)

    def trace(
        self, requests: Sequence[Request], command: Sequence[str], take: Sink, output: Path | None,
        events: tuple[Event, Event], depth: int,
    ) -> KernelTracing:  # fmt: skip
        """A trace of functions of the kernel, whoever calls them; no probe is in yet. ``events``: those at which it
        begins and ends. ``command``: as for a run."""
        return KernelTracing(
            [], list(requests), output, tuple(command), self._target, self._elsewhere, take=take,
            start=events[0], stop=events[1], depth=depth,
        )  # fmt: skip

    def program(self, text: str, command: Sequence[str], take: Sink) -> Consumer:
        """A D program in the kernel, which is not compiled yet; let_go() ends it, and the machine stays. ``command``:
        as for a run; it waits until the probes are in. Raises UsageError, TargetError `cannot-launch`."""
        machine = OtherMachine(Elsewhere(self._elsewhere.link, lambda: None), self._target, take)
        return asked.on(machine, asked.Asked((("n", text),), command=tuple(command)))

    def writing(self, read: Callable[[str], bytes]) -> DWriting:
        """D programs for the kernel while they are written, in a copy of this process. The copy may not use the
        connection to the machine: ``read`` is called for the contents of files there."""
        link = FilesLink(read)
        target = copy(self._target)
        target.link = link
        return DWriting(machine=MachineView(target))

    def read_file(self, path: str) -> bytes:
        """The contents of a file on the machine. Raises OSError, MachineGone."""
        return self._elsewhere.link.read_file(path)

    def close(self) -> None:
        """Let go of the machine; a virtual machine of the lab ends then."""
        self._elsewhere.close()


def watched_kernel(machine: str) -> WatchedKernel:
    """The kernel of ``lab``, a fresh virtual machine, or of ``ssh:HOST``. Raises UsageError, TargetError."""
    return WatchedKernel(reach(machine))

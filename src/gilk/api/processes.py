# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes: attached to, or launched, with sessions in them.

import gilk

with gilk.attach(pid) as target, target.session() as session:
    session.insert("main:entry", gilk.count)
    session.insert([f.entry for f in target.functions("parse_*")], gilk.time)
    ...
    table = session.poll()          # an Arrow table of samples
    print(session.counts())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gilk.errors import TargetError
from gilk.session import places
from gilk.session.base import Probe
from gilk.session.broker.client_session import ClientSession
from gilk.session.places import BlockView, FunctionView, Place
from gilk.targets import process
from gilk.targets.base import Loaded
from gilk.targets.forked import ForkedCopy, forked_copy
from gilk.targets.process import Process
from gilk.targets.restore import restore
from gilk.targets.selecting import PatternPid
from gilk.targets.standing import StandingStill, standing_still
from gilk.targets.startup import start

if TYPE_CHECKING:
    from gilk.session.advised_session import AdvisedSession

__all__ = [
    "BlockView", "ClientSession", "ForkedCopy", "FunctionView", "Loaded", "Place", "Probe", "StandingStill", "Target",
    "attach", "forked_copy", "launch", "restore", "standing_still",
]  # fmt: skip


class Target:
    """A process that gilk is attached to, or has launched. Used as a context manager, it lets the process go at the
    end."""

    def __init__(self, held: Process) -> None:
        self.process = held

    def __repr__(self) -> str:
        return f"<Target {self.process.pid}>"

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.process.__exit__(kind, *rest)

    @property
    def pid(self) -> int:
        """The pid of the process."""
        return self.process.pid

    @property
    def images(self) -> tuple[Loaded, ...]:
        """The images that are mapped, the main program first."""
        return self.process.loaded()

    def functions(self, glob: str = "*", image: str = "") -> tuple[FunctionView, ...]:
        """The functions whose names match ``glob``; ``image`` is a glob for other images than the main program. Raises
        UsageError."""
        return tuple(places.functions(self.process, glob, image))

    def function(self, name: str, image: str = "") -> FunctionView:
        """The first function of that name; ``image`` as in functions(). Raises UsageError `no-such-function`."""
        return next(places.functions(self.process, name, image))

    def session(self, points: int = 1 << 18, threads: int = 1024, ring: int = 4 << 20) -> ClientSession:
        """A session: probes that stay in the process until it is closed.

        Several sessions may be open at a time, also in other processes. ``points``: how many probes there can be in
        all. ``threads``: how many threads can have buffers at a time. ``ring``: bytes of a thread's buffer per record
        class. Raises TargetError.
        """
        return ClientSession(self.process, points, threads, ring)

    def advising(self, points: int = 4096, threads: int = 1024, ring: int = 1 << 16) -> AdvisedSession:
        """A session that has the process for itself, and can put advice on calls (docs/advice.md).

        The parameters are those of session(). Raises UsageError `advice-alone`, TargetError.
        """
        from gilk.session.advised_session import AdvisedSession  # imported here, as few sessions have advice

        return AdvisedSession(self.process, points, threads, ring)

    def resume(self) -> None:
        """Let a launched program run; it has waited, before any of its code, for this."""
        self.process.release()

    def wait(self) -> int | None:
        """The exit status of a launched program as a shell gives it, None while it runs. Does not wait."""
        end = self.process.wait(block=False)
        return end.code if end else None

    def close(self) -> bool:
        """Take everything out and let the process go; returns whether all of its code is what it was."""
        return self.process.close()


def attach(pid: int) -> Target:
    """Attach to a running process. Raises TargetError `no-such-process`, `no-permission`, `already-traced`."""
    return Target(process.attach(pid))


def launch(command: Sequence[str], environment: dict[str, str] | None = None, directory: str = "") -> Target:
    """Start a program, and stop it before its own code runs; ``resume()`` lets it run. Raises TargetError."""
    return Target(start(list(command), environment, directory))


def hold(pids: Sequence[int], command: Sequence[str]) -> list[Process]:
    """Attach to each of the processes once, and launch the command, if there is one; returns the processes, the
    launched one last. Those that a pattern has chosen and that have ended are left out, if there are others.

    If one cannot be had, all are let go. Raises TargetError.
    """
    held: list[Process] = []
    try:
        _attach(pids, held)
        if command:
            held.append(start(list(command)))
    except BaseException:
        for one in held:
            one.kill_unstarted()
            one.close()
        raise
    return held


def _attach(pids: Sequence[int], held: list[Process]) -> None:
    """Attach to the processes, and add each to ``held``. Raises TargetError."""
    ended: TargetError | None = None
    for pid in dict.fromkeys(pids):
        try:
            held.append(process.attach(pid))
        except TargetError as error:
            if error.slug != "no-such-process" or not isinstance(pid, PatternPid):
                raise
            ended = error
    if ended is not None and not held:
        raise ended

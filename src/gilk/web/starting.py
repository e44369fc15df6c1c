# SPDX-License-Identifier: LGPL-2.1-or-later
"""The server's hold on the processes that are started for it: by itself, or by the starter, which is root (starter.py).

A process is waited for by a pidfd, which also tells of its end when the starter has been killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from gilk.values import dataclass
from gilk.web.grants import Grants, handed
from gilk.web.programs import spawned


class StartedProcess:
    """A process. ``kill`` kills it, ``reap`` is called when it has ended, and returns its status if that is known."""

    def __init__(self, pid: int, pidfd: int, kill: Callable[[], None], reap: Callable[[], int | None]) -> None:
        self.pid, self._pidfd, self._kill, self._reap = pid, pidfd, kill, reap
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, self._over)

    def _over(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._reap()
        self.returncode = -signal.SIGKILL if status is None else status
        self._ended.set()

    async def wait(self) -> int:
        """Wait for the end of the process; returns its status, negative for a signal. -9 stands for one that is not
        known, too.
        """
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            self._kill()


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started for the server, with the ends of its pipes."""

    process: StartedProcess
    writing: int
    reading: int


class Starting(Protocol):
    """Starts the programs of a window. ``pid``: the process that they are children of, 0 for this one."""

    pid: int

    async def start(self, name: str) -> Started:
        """Start a program (programs.py). Raises GilkError, ToldError."""


class OwnStarting:
    """Starts programs as children of this process, with its rights, and hands them ``grants``."""

    pid = 0

    def __init__(self, grants: Grants) -> None:
        self._grants, self._handed = grants, -1

    async def start(self, name: str) -> Started:
        if self._handed < 0:
            self._handed = handed(self._grants)
        made = spawned(name, self._handed)

        def kill() -> None:
            with suppress(ProcessLookupError):
                made.process.kill()

        process = StartedProcess(made.process.pid, os.pidfd_open(made.process.pid), kill, made.process.wait)
        return Started(process, made.writing, made.reading)

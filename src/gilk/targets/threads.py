# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of a target: which of them live, and their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

Thread = tuple[int, int]  # pid, tid
Gone = Callable[[int], bool]  # whether the thread of that number has


def thread_is_gone(tid: int) -> bool:
    return not os.path.exists(f"/proc/{tid}")


class Threads(Protocol):
    """The threads of one machine."""

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        """Which are there, of these and perhaps others of the same processes."""
        ...

    def name(self, pid: int, tid: int) -> str:
        """'' when it has gone."""
        ...


class ThreadsOfProgram:
    """The threads of a program of a tree. One of a process that has executed another since, or has ended, goes by
    ``name``. ``has_another``: whether the process of a number has executed another."""

    def __init__(self, threads: Threads, name: str, has_another: Gone) -> None:
        self._threads, self._name, self._has_another = threads, name, has_another

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        return self._threads.live(threads)

    def name(self, pid: int, tid: int) -> str:
        return ("" if self._has_another(pid) else self._threads.name(pid, tid)) or self._name


class OwnThreads:
    """The threads of this machine."""

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        found = set()
        for pid in {pid for pid, _ in threads}:
            try:
                found |= {(pid, int(name)) for name in os.listdir(f"/proc/{pid}/task")}
            except OSError:
                continue
        return found

    def name(self, pid: int, tid: int) -> str:
        try:
            return Path(f"/proc/{pid}/task/{tid}/comm").read_text(errors="replace").rstrip("\n")
        except OSError:
            return ""

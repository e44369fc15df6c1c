# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of a target: which of them are alive, and their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

Thread = tuple[int, int]  # pid, tid
Gone = Callable[[int], bool]  # whether the thread of that number has ended


def thread_is_gone(tid: int) -> bool:
    return not os.path.exists(f"/proc/{tid}")


class Threads(Protocol):
    """The live threads and thread names of one machine."""

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        """The threads that are alive, of these and perhaps others of the same processes."""
        ...

    def name(self, pid: int, tid: int) -> str:
        """The thread's name; '' when it has ended."""
        ...


class ThreadsOfProgram:
    """The threads of a program of a tree. A thread whose process has executed another program since, or which has
    ended, is called ``name``. ``has_another``: whether the process of a number has executed another program."""

    def __init__(self, threads: Threads, name: str, has_another: Gone) -> None:
        self._threads, self._name, self._has_another = threads, name, has_another

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        return self._threads.live(threads)

    def name(self, pid: int, tid: int) -> str:
        return ("" if self._has_another(pid) else self._threads.name(pid, tid)) or self._name


class OwnThreads:
    """The live threads and thread names of this machine, from /proc."""

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

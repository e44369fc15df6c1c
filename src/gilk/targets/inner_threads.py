# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads of a process in another PID namespace than ours: its records carry thread numbers of that namespace."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from gilk.targets import namespaces
from gilk.targets.threads import Gone, OwnThreads, Thread, Threads, thread_is_gone

_FRESH = 0.25  # seconds for which a list of threads is used


def threads_of(pid: int) -> Threads:
    """The live threads and thread names of a process and its children, by the numbers that records have."""
    foreign, own = namespaces.foreign(pid), OwnThreads()
    return InnerThreads(pid, foreign, own if namespaces.is_here(pid) else None) if foreign else own


def gone_of(pid: int) -> Gone:
    """A function that tells whether a thread of a process or its children has ended."""
    foreign = namespaces.foreign(pid)
    return Absent(foreign, namespaces.is_here(pid)) if foreign else thread_is_gone


class InnerThreads:
    """The threads of a process in another PID namespace, by their own numbers, except that process ``pid`` is known by
    ours. ``besides``: the threads of our own namespace, if the process is in it and only its children are elsewhere."""

    def __init__(self, pid: int, foreign: frozenset[str], besides: Threads | None) -> None:
        self._pid = pid
        self._foreign = foreign
        self._besides = besides
        self._known: dict[Thread, Thread] = {}

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        found = {self._shown(inner, ours): ours for inner, ours in namespaces.threads(self._foreign)}
        self._known |= found
        return found.keys() | (self._besides.live(threads) if self._besides is not None else set())

    def _shown(self, inner: Thread, ours: Thread) -> Thread:
        return (self._pid if ours[0] == self._pid else inner[0]), inner[1]

    def name(self, pid: int, tid: int) -> str:
        if self._besides is not None and (name := self._besides.name(pid, tid)):
            return name
        if (pid, tid) not in self._known:
            self.live(())
        return OwnThreads().name(*self._known[pid, tid]) if (pid, tid) in self._known else ""


class Absent:
    """Whether the thread with a given number has ended, decided by a list of threads that was made after the number was
    first asked for.

    Threads of gilk itself, whose numbers appear when clauses run here, count as alive; with ``besides``, so do all
    others in our namespace.
    """

    def __init__(self, foreign: frozenset[str], besides: bool) -> None:
        self._foreign = foreign
        self._besides = besides
        self._there: set[int] = set()
        self._listed = 0.0
        self._missed: dict[int, float] = {}  # when it was first asked for and not found

    def __call__(self, tid: int) -> bool:
        now = time.monotonic()
        if now - self._listed > _FRESH:
            self._list(now)
        if tid in self._there or os.path.exists(f"/proc/self/task/{tid}"):
            return False
        if self._besides and not thread_is_gone(tid):
            return False
        return self._missed.setdefault(tid, now) < self._listed

    def _list(self, now: float) -> None:
        self._listed = now
        self._there = {inner for (_, inner), _ in namespaces.threads(self._foreign)}
        self._missed = {tid: since for tid, since in self._missed.items() if tid not in self._there}

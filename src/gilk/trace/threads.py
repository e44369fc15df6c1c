# SPDX-License-Identifier: LGPL-2.1-or-later
"""What /proc tells of threads: whether they live, and their names; of this machine or, through a reader, of another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from gilk.errors import MachineGone
from gilk.trace.interrupts import lane_name

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


class OwnThreads:
    """Of this machine."""

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


class FarThreads:
    """Of a machine whose files ``read`` reads, at the price of a round trip each; OSError for those not there."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        return {(pid, tid) for pid, tid in threads if tid == 0 or self.name(pid, tid)}

    def name(self, pid: int, tid: int) -> str:
        try:
            text = lane_name(tid).encode() or (self._read(f"/proc/{tid}/comm") if tid else b"idle")
        except (OSError, MachineGone):
            return ""
        return text.decode(errors="replace").rstrip("\n")

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The threads of another machine, according to its /proc."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gilk.errors import MachineGone
from gilk.targets.program import file_of_name
from gilk.targets.threads import Thread
from gilk.trace.interrupts import lane_name


class FarThreads:
    """The threads of another machine. ``read`` reads its files, with a round trip for each, and raises OSError for
    missing ones.
    """

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read

    def live(self, threads: Iterable[Thread]) -> set[Thread]:
        return {(pid, tid) for pid, tid in threads if tid == 0 or self.name(pid, tid)}

    def name(self, pid: int, tid: int) -> str:
        try:
            text = lane_name(tid).encode() or (self._read(file_of_name(tid)) if tid else b"idle")
        except (OSError, MachineGone):
            return ""
        return text.decode(errors="replace").rstrip("\n")

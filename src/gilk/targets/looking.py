# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that is only looked at: its mappings, its files and their analyses. No keeper is attached, and the process
does not notice."""

from __future__ import annotations

from typing import Any

from gilk.errors import TargetError
from gilk.targets.maps import read_maps
from gilk.targets.process import KeeperClient, Process
from gilk.targets.requests import Requests


class NoKeeper(KeeperClient):
    """Refuses every request that would hold the process or change it."""

    def __init__(self) -> None:
        Requests.__init__(self)
        self.pid = 0

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        raise TargetError("only-looked-at", f"nothing is attached to this process, which {name} would take")

    def close(self) -> bool:
        """Always true: nothing was changed."""
        return True

    def leave(self) -> None:
        return


def look(pid: int) -> Process:
    """A process to look at. Raises TargetError `no-such-process`, `no-permission`."""
    read_maps(pid)
    return Process(NoKeeper(), pid, launched=False)

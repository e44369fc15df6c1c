# SPDX-License-Identifier: LGPL-2.1-or-later
"""The heirs of a process: its forked children, which have inherited the patches and the memory that gilk put there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from gilk.errors import TargetError
from gilk.targets.held import Held
from gilk.targets.live_code import LiveBatch
from gilk.targets.traced import Traced


class Undoing(Protocol):
    """The part of a heir's keeper that Heirs uses."""

    def undo(self, staged: list[LiveBatch]) -> bool:
        """Take everything out; returns whether the code is then what it was. Raises TargetError, OSError."""
        ...


K = TypeVar("K", bound=Undoing)


class Heirs(Generic[K]):
    """The heirs of one process. ``kept`` makes a keeper of the heir with a given pid; it raises TargetError
    `no-such-process`, `no-permission`."""

    def __init__(
        self, process: Traced, held: Callable[[], Held], kept: Callable[[int], AbstractContextManager[K]]
    ) -> None:
        self._process, self._held, self._kept = process, held, kept

    def keepers(self) -> Iterator[K]:
        """The keepers of all heirs that can be reached."""
        for pid in self._pids():
            with contextlib.suppress(TargetError), self._kept(pid) as child:
                yield child

    def undo(self, staged: list[LiveBatch], note: Callable[[str], None]) -> bool:
        """Undo everything in each heir, even if another fails; returns whether all code is what it was. ``note`` is
        told of each heir in which something is left."""
        restored = True
        for pid in self._pids():
            restored &= self._undo_one(pid, staged, note)
        return restored

    def _undo_one(self, pid: int, staged: list[LiveBatch], note: Callable[[str], None]) -> bool:
        restored, why = False, "its code is not what it was"
        try:
            with self._kept(pid) as child:
                restored = child.undo(staged)
        except TargetError as error:
            restored, why = error.slug == "no-such-process", error.message
        except OSError as error:
            restored, why = not self._process.lives(pid), error.strerror or str(error)
        if not restored:
            note(f"process {pid}, a child, keeps its probes and what gilk has mapped: {why}")
        return restored

    def _pids(self) -> list[int]:
        held = self._held()
        return self._process.heirs(held.code_name) if held.name else []

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program in a tree of processes: its clauses run in each of them, on memory that all of them share."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator

from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.in_process import InProcess, InsideLayout, Joining
from gilk.engines.dtrace.unwinding import Unwinding
from gilk.errors import TargetError
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import GLOBALS_START, TranslationUnit
from gilk.lang.to_c.sites import NOTES
from gilk.session.broker.messages import MOST_MEMORY, THREADS
from gilk.targets.base import Target
from gilk.targets.shared_memory import sealed
from gilk.trace.d.layout import pages
from gilk.values import dataclass

_TABLES_AT = pages(GLOBALS_START + THREADS * NOTES)
_UNKNOWN = (1 << 32) - 1  # a block that no thread has: stands for threads of which nothing is known


@dataclass(frozen=True, slots=True)
class SealedMemory:
    """Memory of gilk that all processes map: ``size`` bytes, sealed so that nobody can shrink it."""

    descriptor: int
    size: int


class TreePart(InProcess):
    """A D program in one process of a tree. Its environment and its unwind tables are in memory that only this process
    has."""

    def __init__(
        self, process: Target, join: Joining, common: SealedMemory, made: TranslationUnit, enabled: Enabled,
        environment: bytes, unwinding: Unwinding | None,
    ) -> None:  # fmt: skip
        """``environment``: what clauses know of the process. ``unwinding``: given if clauses look at stacks. Raises
        TargetError."""
        self._tables = pages(unwinding.room) if unwinding is not None else 0
        self.unwinding = unwinding
        super().__init__(process, join, common.size, made, enabled, enabled.groups())
        self.process, self.environment = process, environment.ljust(GLOBALS_START, b"\0")
        try:
            self._at = self._client.map_common(common.descriptor, common.size)
        except BaseException:
            self.close()
            raise
        own = memoryview(self._client.memory)
        own[:GLOBALS_START] = self.environment
        if unwinding is not None:
            unwinding.place(own[_TABLES_AT : _TABLES_AT + self._tables])

    @property
    def _room(self) -> int:
        return _TABLES_AT + self._tables

    @property
    def _layout(self) -> InsideLayout:
        own = self._client.offset
        return InsideLayout(self._at, own + GLOBALS_START, own, own + _TABLES_AT, self._tables)


class InTree:
    """A D program in all processes of a tree. ``memory``: the program's, of ``size`` bytes, mapped here and in each
    process."""

    def __init__(self, size: int) -> None:
        """Raises OSError if there is not that much memory."""
        if size > MOST_MEMORY:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self.common = SealedMemory(sealed(f"gilk-memory-d-{os.getpid()}", size), size)
        self.memory = memoryview(mmap.mmap(self.common.descriptor, size))
        self._parts: dict[int, TreePart] = {}  # by the number of the executed program in the tree
        self.notes: list[str] = []

    @property
    def parts(self) -> dict[int, TreePart]:
        """The parts in the present processes, by number."""
        return dict(self._parts)

    def add(self, number: int, part: TreePart) -> None:
        self._parts[number] = part

    def insert(self, marked: bool) -> list[tuple[DProbe, str]]:
        """Put in the probes of all present parts; returns those that are refused, with the reasons."""
        return [refused for part in self._parts.values() for refused in part.insert(marked)]

    def inside(self) -> set[int]:
        """The threads that run clauses at the moment, in any process: program << 32 | block, by their numbers."""
        return {number << 32 | block for number, part in self._parts.items() for block in _inside(part)}

    def forget(self, number: int) -> None:
        """Close the part of a program that no process of the tree runs any more."""
        part = self._parts.pop(number, None)
        if part is not None:
            part.close()

    def close(self) -> bool | None:
        """Take everything out of all processes; returns whether they are what they were, None if that is not known."""
        found = set(self._closed())
        if self.common.descriptor >= 0:
            os.close(self.common.descriptor)
            self.common = SealedMemory(-1, self.common.size)
        return False if False in found else None if None in found else True

    def _closed(self) -> Iterator[bool | None]:
        while self._parts:
            _, part = self._parts.popitem()
            restored = part.close()
            self.notes += part.notes
            yield restored


def _inside(part: TreePart) -> set[int]:
    try:
        return part.inside()
    except TargetError as error:
        return set() if error.slug == "no-such-process" else {_UNKNOWN}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The semaphores of USDT probes (image/stapsdt.py): counters in a process, of 16 bits each, of the listeners to a
probe.

The process itself holds a record of the semaphores that were raised, in memory that a fork copies. So gilk knows which
of them a child has inherited, whenever it was forked, and which to lower when all sessions that raised them are gone.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from gilk.targets.held import RECORD_NAME
from gilk.targets.maps import Mapping
from gilk.targets.traced import Traced
from gilk.values import dataclass

_SIZE, _MOST = 2, (1 << 16) - 1
_ROW = struct.Struct("<QQQ")  # address, inode, number; the first row is the count, twice
_ROOM = 1 << 18  # bytes
_MOST_ROWS = _ROOM // _ROW.size - 1
Semaphore = tuple[int, str]  # a counter's address, and the path of the file that is mapped there


@dataclass(frozen=True, slots=True)
class Raised:
    """One increment of a semaphore. ``inode``: of the file that was mapped there; no two have the same ``number``."""

    address: int
    inode: int
    number: int


class Semaphores:
    """The semaphores of one process. ``name`` returns the name of the session's record there; ``map_record(name,
    size)`` maps one."""

    def __init__(self, process: Traced, name: Callable[[], str], map_record: Callable[[str, int], int]) -> None:
        self._process = process
        self._memory = process.memory
        self._name = name
        self._map_record = map_record
        self._last = 0

    def raise_(self, counters: Sequence[Semaphore]) -> list[Raised]:
        """Increment semaphores; returns those that were incremented. Others have been unmapped, are at their maximum,
        or have no room in the record."""
        at = self._records(self._name()) or [self._map_record(self._name(), _ROOM)]
        with self._process.threads.stopped():
            known = self._rows(at[0])
            fresh = self._present(counters)[: max(_MOST_ROWS - len(known), 0)]
            self._write(at[0], [*known, *fresh])  # first: a keeper that is killed in between leaves no unknown counter
            changed = [one for one in fresh if self._add(one.address, 1)]
            self._write(at[0], [*known, *changed])
        return changed

    def lower(self, raised: Sequence[Raised]) -> None:
        """Decrement those of the semaphores that were raised here, or in the parent of this process before it was
        forked."""
        self._lower(self._name(), {one.number for one in raised})

    def lower_all(self) -> None:
        self._lower(self._name(), None)

    def lower_abandoned(self) -> None:
        """Lower the semaphores that any session has raised."""
        self._lower(RECORD_NAME, None)

    def _lower(self, name: str, numbers: set[int] | None) -> None:
        records = self._records(name)
        if not records:
            return
        with contextlib.suppress(OSError), self._process.threads.stopped():
            maps = self._process.maps()
            for at in records:
                rows = self._rows(at)
                going = [one for one in rows if numbers is None or one.number in numbers]
                for one in going:
                    if (mapping := _mapping(maps, one.address)) is not None and mapping.inode == one.inode:
                        self._add(one.address, -1)
                self._write(at, [one for one in rows if one not in going])

    def _add(self, address: int, by: int) -> bool:
        with contextlib.suppress(OSError):
            value = int.from_bytes(self._memory.read(address, _SIZE), "little") + by
            if 0 <= value <= _MOST:
                self._memory.write(address, value.to_bytes(_SIZE, "little"))
                return True
        return False

    def _present(self, counters: Sequence[Semaphore]) -> list[Raised]:
        """The semaphores whose file is still mapped there, writable; each with a new number."""
        maps, found = self._process.maps(), []
        for address, path in counters:
            mapping = _mapping(maps, address)
            if mapping is not None and (Path(mapping.path).name == Path(path).name or path.startswith("/proc/")):
                self._last += 1
                found.append(Raised(address, mapping.inode, self._last))
        return found

    # The record.

    def _records(self, name: str) -> list[int]:
        """The addresses of the records whose names begin with ``name``."""
        if not name:
            return []
        found = (each for each in self._process.maps() if each.path.startswith(f"/memfd:{name}"))
        return [each.start for each in found if each.offset == 0]

    def _rows(self, at: int) -> list[Raised]:
        """The rows of a record; empty if the record has been overwritten by others, or has gone."""
        head = self._memory.read(at, _ROW.size)
        number, again, _ = _ROW.unpack(head) if len(head) == _ROW.size else (0, 0, 0)
        if number != again or number > _MOST_ROWS:
            return []
        content = self._memory.read(at + _ROW.size, number * _ROW.size)
        return [Raised(*row) for row in _ROW.iter_unpack(content[: len(content) // _ROW.size * _ROW.size])]

    def _write(self, at: int, rows: Sequence[Raised]) -> None:
        packed = (_ROW.pack(one.address, one.inode, one.number) for one in rows)
        self._memory.write(at, b"".join((_ROW.pack(len(rows), len(rows), 0), *packed)))


def _mapping(maps: Sequence[Mapping], address: int) -> Mapping | None:
    """The writable mapping in which a counter at that address lies; None if there is none."""
    inside = (each for each in maps if each.start <= address < each.end - 1)
    return next((each for each in inside if "w" in each.permissions), None)

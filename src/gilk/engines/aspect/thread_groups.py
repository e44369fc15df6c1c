# SPDX-License-Identifier: LGPL-2.1-or-later
"""The groups of single threads: what the weaver knows of them, and the table in which the C of aspects looks them up
(struct gilk_member in native/include/gilk_aspect.h).

A thread is a member of the groups of its process, unless it has itself joined a group, or left one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from gilk.values import dataclass

#: How many groups a file can have if threads join and leave them.
MOST_GROUPS = 32
_BITS, _TRIES = 10, 64
SIZE = 16 << _BITS  # bytes of the table
_MEMBER = struct.Struct("<2Q")
_HASH = 0x9E3779B97F4A7C15
_THREADS = 48  # the offset in the common state of the number of threads in the table


@dataclass(frozen=True, slots=True)
class ThreadGroups:
    """A thread of process ``pid``, with the groups that it has ``joined`` and ``left`` by itself."""

    pid: int
    joined: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()

    def changed(self, group: str, joins: bool) -> ThreadGroups:
        joined, left = self.joined - {group}, self.left - {group}
        return ThreadGroups(self.pid, joined | {group} if joins else joined, left if joins else left | {group})


def mask(groups: Iterable[str], every: Sequence[str]) -> int:
    """A bit for each group, by its number among ``every``. Groups beyond MOST_GROUPS have none."""
    return sum(1 << every.index(one) for one in set(groups) if every.index(one) < MOST_GROUPS)


class ThreadTable:
    """The table. ``view``: the common state; ``at``: the offset of the table in it. Every process may have written
    there, so nothing is read back."""

    def __init__(self, view: memoryview, at: int, every: Sequence[str]) -> None:
        self._view, self._at, self._every = view, at, tuple(every)
        self._slots: list[int | None] = [None] * (1 << _BITS)  # the thread of each slot, 0 for one that has ended
        self._places: dict[int, int] = {}

    def put(self, tid: int, groups: ThreadGroups) -> bool:
        """Write a thread's groups; returns whether there was room."""
        place = self._places.get(tid)
        if place is None and (place := self._free(tid)) is None:
            return False
        word = mask(groups.joined, self._every) | mask(groups.left, self._every) << MOST_GROUPS
        if self._slots[place] != tid:
            self._write(place, tid, 0)
            self._slots[place] = tid
            self._places[tid] = place
        self._write(place, tid, word)
        self._count()
        return True

    def drop(self, tid: int) -> None:
        """Forget a thread. Its slot is not emptied, since other threads may lie behind it."""
        place = self._places.pop(tid, None)
        if place is not None:
            self._write(place, tid, 0)
            self._slots[place] = 0
            self._count()

    def _free(self, tid: int) -> int | None:
        first = (tid * _HASH & (1 << 64) - 1) >> 64 - _BITS
        places = ((first + n) % len(self._slots) for n in range(_TRIES))
        return next((place for place in places if not self._slots[place]), None)

    def _write(self, place: int, tid: int, word: int) -> None:
        _MEMBER.pack_into(self._view, self._at + place * _MEMBER.size, tid, word)

    def _count(self) -> None:
        struct.pack_into("<Q", self._view, _THREADS, len(self._places))


class KnownThreads:
    """The threads that have joined or left groups by themselves. ``known``: those at the beginning, by number."""

    def __init__(self, known: Mapping[int, ThreadGroups]) -> None:
        self._known = dict(known)

    def change(self, pid: int, tid: int, group: str, joins: bool) -> ThreadGroups:
        """Note that a thread joins a group or leaves it; returns all that is known of it then."""
        known = self._known.get(tid)
        before = known if known is not None and known.pid == pid else ThreadGroups(pid)
        self._known[tid] = before.changed(group, joins)
        return self._known[tid]

    def joined(self, pid: int) -> set[str]:
        """The groups that threads of the process have joined by themselves."""
        return {group for one in self._known.values() if one.pid == pid for group in one.joined}

    @property
    def pids(self) -> set[int]:
        """The processes of threads that have joined a group."""
        return {one.pid for one in self._known.values() if one.joined}

    def forget(self, is_gone: Callable[[int, int], bool]) -> list[int]:
        """Forget the threads for which ``is_gone(pid, tid)``; returns them."""
        gone = [tid for tid, one in self._known.items() if is_gone(one.pid, tid)]
        for tid in gone:
            del self._known[tid]
        return gone

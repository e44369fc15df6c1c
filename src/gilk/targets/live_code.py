# SPDX-License-Identifier: LGPL-2.1-or-later
"""The code of a process as it is executed: writes changes to it, and says whether it is what it was.

Libraries come and go: another one may be mapped where code was changed. So the home (homes.py) of all code that is
changed is noted, and code that lies elsewhere by now is neither written to nor compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from gilk.targets import copies as code_copies
from gilk.targets.batch import Batch, Byte, Int
from gilk.targets.copies import Copy, OnlyCopied
from gilk.targets.homes import Home, homes, in_homes, shared_at, without_file
from gilk.targets.maps import Mapping
from gilk.targets.ours import led_to, written_by_us
from gilk.targets.refusals import check_private, expecting
from gilk.targets.traced import Traced
from gilk.targets.writer import Change, differing, write
from gilk.values import dataclass


@dataclass
class LiveBatch:
    """A staged batch. ``active``: its units that are in force; ``home``: the homes of the code that it changed when it
    first came into force, in the process or in the one that this process was forked from."""

    batch: Batch
    active: set[int] = field(default_factory=set)
    home: frozenset[Home] = frozenset()


class LiveCode:
    """The code of one process. ``homes`` are those of all code that was ever changed. ``copies``, in every method, are
    the copies that the process has."""

    def __init__(self, process: Traced) -> None:
        self._process = process
        self._memory = process.memory
        self.homes: frozenset[Home] = frozenset()

    def note(self, at: Int, maps: tuple[Mapping, ...]) -> None:
        """Note the homes of the code at these ascending addresses, which is going to be changed."""
        self.homes |= homes(maps, at)

    def settle(self, staged: Iterable[LiveBatch], copies: Sequence[Copy]) -> None:
        """Note the homes of batches that have come into force, if they are not noted yet."""
        fresh = [one for one in staged if not one.home]
        maps = self._maps(copies) if fresh else ()
        for one in fresh:
            one.home = homes(maps, np.sort(one.batch.at))

    def write(self, changes: Sequence[Change], copies: Sequence[Copy], lenient: bool, apart: OnlyCopied) -> int:
        """Make changes; returns how many bytes were not gilk's and were left alone. ``apart``: the bytes that only the
        copies have after the change. Raises TargetError `code-changed`, unless ``lenient``."""
        changes = [change for change in changes if len(change.at)]
        maps = self._maps(copies) if changes else ()
        if not lenient:
            for change in changes:
                check_private(self._process.pid, shared_at(maps, change.at))
        strangers = 0
        for change in changes:
            if not lenient:
                self.note(change.at, maps)
                with expecting(self._process.pid, self._memory):
                    write(self._memory, change)
            else:
                ours = change.only(in_homes(maps, change.at, self.homes) | self._moved_along(maps, change.at))
                strangers += len(change.at) - len(ours.at) + write(self._memory, ours, lenient)
            code_copies.mirror(self._memory, copies, change.at, change.new, apart)
        return strangers

    def is_original(self, staged: Iterable[LiveBatch], copies: Sequence[Copy]) -> bool:
        """Whether all code that batches have changed is what it was. Other code that lies there by now is not
        compared."""
        maps = self._maps(copies)
        by_home: dict[frozenset[Home], list[Batch]] = {}
        for one in staged:
            by_home.setdefault(one.home, []).append(one.batch)
        for known, batches in by_home.items():
            at, original = _first_values([(batch.at, batch.old) for batch in batches])
            ours = in_homes(maps, at, known)
            if differing(self._memory, at[ours], original[ours]) or self._moved_along(maps, at).any():
                return False
        return True

    def _moved_along(self, maps: tuple[Mapping, ...], at: Int) -> NDArray[np.bool_]:
        """For each of the ascending addresses ``at``, whether it belongs to a splice that the program has copied with
        its code to anonymous memory, which it then has mapped in place of the file (for huge pages)."""
        found = np.zeros(len(at), np.bool_)
        for mapping, low, high in without_file(maps, at):
            code = np.frombuffer(self._memory.some(mapping.start, mapping.end - mapping.start), np.uint8)
            rows = at[low:high] - mapping.start
            found[low:high][rows < len(code)] = written_by_us(code, mapping.start, led_to(maps))[rows[rows < len(code)]]
        return found

    def _maps(self, copies: Sequence[Copy]) -> tuple[Mapping, ...]:
        return code_copies.as_executed(self._process.maps(), copies)


def _first_values(parts: list[tuple[Int, Byte]]) -> tuple[Int, Byte]:
    """Ascending addresses without repeats, with their values; where an address repeats, its values are all the same."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    at, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    at, values = at[order], values[order]
    first = np.diff(at, prepend=-1) != 0  # numpy.unique() would import numpy.ma, which takes as long as a change
    return at[first], values[first]

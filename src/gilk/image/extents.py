# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sets of addresses, as sorted and disjoint ranges."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from gilk.values import dataclass


def disjoint(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, sorted, without empty ones and those that overlap an earlier one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if start < end and (not found or start >= found[-1][1]):
            found.append((start, end))
    return found


@dataclass(frozen=True, slots=True)
class Extents:
    """Ranges [start, end), sorted and disjoint."""

    pairs: tuple[tuple[int, int], ...]

    def end_of(self, address: int) -> int:
        """The end of the range that contains ``address``; 0 if none does."""
        i = bisect.bisect_right(self.pairs, (address, 1 << 65)) - 1
        return self.pairs[i][1] if i >= 0 and address < self.pairs[i][1] else 0

    def without(self, holes: Iterable[tuple[int, int]]) -> Extents:
        """These ranges without ``holes``, which must be sorted and disjoint."""
        rest = list(reversed(self.pairs))
        found = []
        for low, high in holes:
            while rest and rest[-1][1] <= low:
                found.append(rest.pop())
            while rest and rest[-1][0] < high:
                start, end = rest.pop()
                found.append((start, low))
                if end > high:
                    rest.append((high, end))
        found.extend(reversed(rest))
        return Extents(tuple(pair for pair in found if pair[0] < pair[1]))

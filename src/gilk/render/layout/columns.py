# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses the column of each block: above the middle of those that hang from it, with trees as close together as
possible.

Columns are counted in halves: a block is two wide, so that it can stand above the middle of two others.
"""

from __future__ import annotations

from gilk.render.layout.rows import RowPlacement

WIDE = 2  # the width of a block in halves of a column


def columns(found: RowPlacement) -> tuple[int, ...]:
    """The left half column of each block; none is negative."""
    below: list[list[int]] = [[] for _ in found.row]
    roots: list[int] = []
    for block, parent in enumerate(found.parent):
        (roots if parent < 0 else below[parent]).append(block)
    trees = _Trees(below, found.row)
    for root in roots:
        trees.lay(root)
    trees.join(roots)
    return trees.columns(roots)


class _Trees:
    """Lays out trees. ``_offset`` has the offset of each block from the one it hangs from. The outline of a tree has,
    row by row from its root on, the first and the last half column that it takes, counted from its root.
    """

    def __init__(self, below: list[list[int]], row: tuple[int, ...]) -> None:
        self._below, self._row = below, row
        self._offset = [0] * len(below)
        self._outline: dict[int, list[list[int]]] = {}

    def lay(self, root: int) -> None:
        """Lay out a tree, the trees below its root first."""
        waiting = [(root, False)]
        while waiting:
            block, ready = waiting.pop()
            if ready:
                self._over(block)
            else:
                waiting.append((block, True))
                waiting += [(each, False) for each in reversed(self._below[block])]

    def _over(self, block: int) -> None:
        """Put a block above the middle of its trees."""
        outline = self.join(self._below[block])
        if not self._below[block]:
            self._outline[block] = [[0, WIDE]]
            return
        middle = (self._offset[self._below[block][0]] + self._offset[self._below[block][-1]]) // 2
        for each in self._below[block]:
            self._offset[each] -= middle
        for edges in outline:
            edges[0] -= middle
            edges[1] -= middle
        gap = self._row[self._below[block][0]] - self._row[block] - 1
        self._outline[block] = [[0, WIDE], *([0, WIDE] for _ in range(gap)), *outline]

    def join(self, trees: list[int]) -> list[list[int]]:
        """Lay trees side by side and set the offset of each from the first; returns the outline of all."""
        all_of_them: list[list[int]] = []
        for block in trees:
            mine = self._outline.pop(block)
            shift = max((left[1] - right[0] for left, right in zip(all_of_them, mine, strict=False)), default=0)
            self._offset[block] = shift
            for depth, (first, last) in enumerate(mine):
                if depth < len(all_of_them):
                    all_of_them[depth][1] = last + shift
                else:
                    all_of_them.append([first + shift, last + shift])
        return all_of_them

    def columns(self, roots: list[int]) -> tuple[int, ...]:
        found = [0] * len(self._below)
        waiting = [(root, 0) for root in roots]
        while waiting:
            block, start = waiting.pop()
            found[block] = start + self._offset[block]
            waiting += [(each, found[block]) for each in self._below[block]]
        least = min(found, default=0)
        return tuple(column - least for column in found)

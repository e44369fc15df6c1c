# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses the row of each block: one below the lowest of those that lead to it, if edges that close loops are
ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from gilk.render.layout.model import Arc
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class RowPlacement:
    """``row`` of each block; ``parent``: the block above that it hangs from, -1 for none; ``back``: the numbers of the
    links that close loops.
    """

    row: tuple[int, ...]
    parent: tuple[int, ...]
    back: frozenset[int]


def rows(blocks: int, links: Sequence[Arc]) -> RowPlacement:
    leading: list[list[int]] = [[] for _ in range(blocks)]
    for number, link in enumerate(links):
        leading[link.source].append(number)
    order, back = _walked(blocks, links, leading)
    row, parent = [0] * blocks, [-1] * blocks
    for block in order:
        for number in leading[block]:
            target = links[number].target
            if number not in back and row[block] + 1 > row[target]:
                row[target], parent[target] = row[block] + 1, block
    return RowPlacement(tuple(row), tuple(parent), back)


def _walked(blocks: int, links: Sequence[Arc], leading: Sequence[Sequence[int]]) -> tuple[list[int], frozenset[int]]:
    """The blocks in an order in which each comes after all that lead to it, and the links that had to be ignored for
    that.
    """
    done, back = [0] * blocks, set()  # 1: on the way, 2: finished
    finished: list[int] = []
    for first in range(blocks):
        if done[first]:
            continue
        done[first] = 1
        way = [(first, iter(leading[first]))]
        while way:
            block, left = way[-1]
            number = next(left, -1)
            if number < 0:
                done[block] = 2
                finished.append(block)
                way.pop()
            elif done[target := links[number].target] == 1:
                back.add(number)
            elif not done[target]:
                done[target] = 1
                way.append((target, iter(leading[target])))
    return finished[::-1], frozenset(back)

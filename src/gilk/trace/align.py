# SPDX-License-Identifier: LGPL-2.1-or-later
"""The elements that two sequences have in common: a longest common subsequence.

The table of lengths is kept as bits, a row a number (Hyyrö, Bit-parallel LCS-length computation revisited, 2004), so
that thousands of elements against thousands take milliseconds. If the table would have more than `LARGEST` bits, the
n-th element of a kind in one sequence is matched with the n-th of the same kind in the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

Pairs = list[tuple[int, int]]

LARGEST = 400_000_000  # bits


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """The pairs (place in a, place in b) of equal elements, in order."""
    first, last = 0, 0
    shorter = min(len(a), len(b))
    while first < shorter and a[first] == b[first]:
        first += 1
    while last < shorter - first and a[-1 - last] == b[-1 - last]:
        last += 1
    inner_a, inner_b = a[first : len(a) - last], b[first : len(b) - last]
    alike = _by_bits if len(inner_a) * len(inner_b) <= LARGEST else _by_turn
    middle = alike(inner_a, inner_b) if inner_a and inner_b else []
    return [
        *((n, n) for n in range(first)),
        *((first + i, first + j) for i, j in middle),
        *((len(a) - n, len(b) - n) for n in range(last, 0, -1)),
    ]


def _by_bits(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    places: dict[Hashable, int] = defaultdict(int)
    for n, element in enumerate(b):
        places[element] |= 1 << n
    every = (1 << len(b)) - 1
    rows, row = [], every  # a bit is 0 where the common subsequence grows by that element of b
    for element in a:
        equal = row & places.get(element, 0)
        row = (row + equal | row - equal) & every
        rows.append(row)
    found: Pairs = []
    i, j = len(a), len(b)
    while i and j:
        if rows[i - 1] >> j - 1 & 1:
            j -= 1
            continue
        i -= 1
        if i == 0 or rows[i - 1] >> j - 1 & 1:
            j -= 1
            found.append((i, j))
    return found[::-1]


def _by_turn(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for n in range(len(b) - 1, -1, -1):
        waiting[b[n]].append(n)
    found: Pairs = []
    for n, element in enumerate(a):
        turn = waiting.get(element)
        while turn and found and turn[-1] < found[-1][1]:
            turn.pop()
        if turn:
            found.append((n, turn.pop()))
    return found

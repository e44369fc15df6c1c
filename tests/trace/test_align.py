# SPDX-License-Identifier: LGPL-2.1-or-later
"""An alignment is a common subsequence, as long as the textbook's table requires."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from gilk.trace import align as module
from gilk.trace.align import align

SEQUENCES = st.lists(st.sampled_from("abc"), max_size=14)


def longest(a: list[str], b: list[str]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def check(a: list[str], b: list[str], pairs: list[tuple[int, int]]) -> None:
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in itertools.pairwise(pairs))


@given(SEQUENCES, SEQUENCES)
def test_an_alignment_is_a_longest_common_subsequence(a: list[str], b: list[str]) -> None:
    pairs = align(a, b)
    check(a, b, pairs)
    assert len(pairs) == longest(a, b)


@given(SEQUENCES, SEQUENCES)
def test_beyond_the_limit_an_alignment_is_a_common_subsequence(a: list[str], b: list[str]) -> None:
    check(a, b, module._by_turn(a, b))


def test_thousands_of_elements_are_aligned_quickly() -> None:
    walk = random.Random(1)
    a = [walk.choice("abcdef") for _ in range(10_000)]
    b = [each for each in a if walk.random() < 0.9]
    assert len(align(a, b)) == len(b)

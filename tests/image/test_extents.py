# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sets of address ranges, compared with plain sets of addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gilk.image.extents import Extents, disjoint

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def members(pairs: object) -> set[int]:
    return {address for start, end in pairs for address in range(start, end)}  # type: ignore[attr-defined]


def test_holes_are_cut_out_of_extents() -> None:
    extents = Extents(((0, 10), (20, 30), (40, 50)))
    assert extents.without([(0, 4), (5, 6), (22, 30), (35, 36), (45, 60)]).pairs == (
        (4, 5),
        (6, 10),
        (20, 22),
        (40, 45),
    )


@given(PAIRS)
def test_disjoint_keeps_the_first_of_two_overlapping_ranges(pairs: list[tuple[int, int]]) -> None:
    found = disjoint(pairs)
    assert found == sorted(found)
    assert set(found) <= set(pairs)
    assert sum(end - start for start, end in found) == len(members(found)) <= len(members(pairs))


@given(PAIRS, PAIRS)
def test_without_is_set_difference(pairs: list[tuple[int, int]], holes: list[tuple[int, int]]) -> None:
    extents = Extents(tuple(disjoint(pairs)))
    rest = extents.without(disjoint(holes))
    assert members(rest.pairs) == members(extents.pairs) - members(disjoint(holes))
    assert list(rest.pairs) == disjoint(rest.pairs)


@given(PAIRS, st.integers(0, 60))
def test_end_of_the_extent_that_holds_an_address(pairs: list[tuple[int, int]], address: int) -> None:
    extents = Extents(tuple(disjoint(pairs)))
    assert extents.end_of(address) == next((end for start, end in extents.pairs if start <= address < end), 0)

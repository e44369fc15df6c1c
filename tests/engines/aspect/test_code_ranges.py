# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sets of ranges of code, as the C of aspects searches them."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gilk.engines.aspect.state import RANGES, CodeRanges

_RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda one: (one[0], sum(one))), max_size=12)


@given(_RANGES, _RANGES)
def test_a_set_has_the_addresses_of_its_ranges_in_order_and_apart(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    made = CodeRanges()
    places = [made.place(one) for one in (first, second)]
    words = struct.unpack(f"<{made.size // 8}Q", made.packed())
    for place, given_ranges in zip(places, (first, second), strict=True):
        at = (place - RANGES) // 8
        bounds = words[at + 1 : at + 1 + 2 * words[at]]
        assert all(a < b for a, b in pairwise(bounds)), "no range meets another"
        found = {n for low, high in zip(bounds[::2], bounds[1::2], strict=True) for n in range(low, high)}
        assert found == {n for low, high in given_ranges for n in range(low, high)}

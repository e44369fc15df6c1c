# SPDX-License-Identifier: LGPL-2.1-or-later
"""Room for patches and for trampolines."""

from __future__ import annotations

import random

import pytest

from gilk.splice.allocator import PAGE, Arena, Occupied, OutOfSpace, PunPages

BASE = 0x10000000


def test_an_arena_hands_out_aligned_pieces_until_it_is_full() -> None:
    arena = Arena(BASE, PAGE, 0, used=64)
    first, second = arena.allocate(17), arena.allocate(1)
    assert (first, second) == (BASE + 64, BASE + 96)
    with pytest.raises(OutOfSpace):
        arena.allocate(PAGE)


def test_an_arena_can_be_reset_to_a_mark() -> None:
    arena = Arena(BASE, PAGE, 0)
    mark = arena.mark()
    first = arena.allocate(100)
    arena.reset(mark)
    assert arena.allocate(10) == first


def test_an_arena_reaches_all_of_itself() -> None:
    arena = Arena(BASE, 64 << 20, 0)
    for place in arena.reach:
        for target in (arena.base, arena.base + arena.size):
            assert -(1 << 31) <= target - place - 5 < 1 << 31


def test_trampolines_lie_in_the_requested_range_and_do_not_overlap() -> None:
    rng = random.Random(1)
    taken = (BASE, BASE + 8 * PAGE)
    puns = PunPages(Occupied((taken,)), 0, 1 << 20)
    bytes_used: set[int] = set()
    for _ in range(3000):
        low = BASE - 64 * PAGE + rng.randrange(128 * PAGE)
        high = low + rng.choice((1, 256, 65536))
        at = puns.allocate(low, high)
        if at is None:
            continue
        own = set(range(at, at + 5))
        assert low <= at < high
        assert own.isdisjoint(bytes_used)
        assert own.isdisjoint(range(*taken))
        assert at // PAGE == (at + 4) // PAGE
        assert at & -PAGE in puns.pages
        bytes_used |= own
    assert len(bytes_used) > 5000
    assert len(set(puns.pages.values())) == len(puns.pages)


def test_a_full_page_has_no_more_room() -> None:
    puns = PunPages(Occupied(()), 0, 1)
    found = [puns.allocate(BASE, BASE + PAGE) for _ in range(PAGE // 5 + 1)]
    assert None not in found[:-1]
    assert found[-1] is None


def test_no_more_pages_than_allowed() -> None:
    puns = PunPages(Occupied(()), 0, 2)
    assert [puns.allocate(BASE + n * PAGE, BASE + n * PAGE + 1) is None for n in range(3)] == [False, False, True]

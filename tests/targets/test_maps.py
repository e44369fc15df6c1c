# SPDX-License-Identifier: LGPL-2.1-or-later
"""Address ranges: those that are taken, and those that are free."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.errors import TargetError
from gilk.splice.allocator import REACH, Occupied
from gilk.targets.maps import Mapping, find_room, occupied, parse_maps, read_maps

PAGE = 4096


def test_own_maps_hold_the_address_of_a_function() -> None:
    mappings = read_maps(os.getpid())
    assert all(m.start < m.end for m in mappings)
    assert any(m.executable and m.path.startswith("/") for m in mappings)
    assert any(m.path == "[stack]" for m in mappings)


def test_reading_the_maps_of_a_missing_process_is_an_error() -> None:
    with pytest.raises(TargetError) as caught:
        read_maps(1 << 22)
    assert caught.value.slug == "no-such-process"


def test_heap_and_stack_keep_room_to_grow() -> None:
    maps = (
        Mapping(0x10000000, 0x10100000, "rw-p", 0, 0, "[heap]"),
        Mapping(0x7FFF00000000, 0x7FFF00021000, "rw-p", 0, 0, "[stack]"),
    )
    with_growth, without = occupied(maps), occupied(maps, growth=False)
    assert not with_growth.free(0x10100000, 0x10101000)
    assert without.free(0x10100000, 0x10101000)
    assert not with_growth.free(0x7FFEFFFFF000, 0x7FFF00000000)


RANGES = st.lists(st.tuples(st.integers(16, 1 << 22), st.integers(1, 1 << 14)), max_size=30)


@given(RANGES, st.integers(1 << 16, 1 << 22), st.integers(1, 1 << 12))
def test_found_room_is_free_and_in_reach(pairs: list[tuple[int, int]], page: int, pages: int) -> None:
    low, size = page * PAGE, 64 * PAGE
    high = low + pages * PAGE
    maps = tuple(Mapping(s * PAGE, (s + n) * PAGE, "r--p", 0, 0, "x") for s, n in sorted([*pairs, (page, pages)]))
    space = occupied(maps)
    start = find_room(space, low, high, size)
    if start is None:
        return
    assert start % PAGE == 0
    assert space.free(start, start + size)
    assert max(high, start + size) - min(low, start) <= REACH + size


def test_no_room_is_found_if_everything_is_taken() -> None:
    assert find_room(Occupied(((0, 1 << 47),)), 1 << 40, (1 << 40) + PAGE, PAGE) is None


def test_unmappable_addresses_are_not_free() -> None:
    """Beyond 2^47 less a page, and below vm.mmap_min_addr, mmap(2) and mremap(2) fail."""
    space = occupied((Mapping(0x7FFFF7FD0000, 0x7FFFF7FF0000, "r-xp", 0, 1, "ld.so"),))
    assert not space.free(0x7FFFFFFFF000, 0x800000000000)
    assert not space.free(0x800010000000, 0x800010001000)
    assert not space.free(0x8000, 0x9000)
    assert space.free(0x7FFFFFFFE000, 0x7FFFFFFFF000)


def test_only_a_newline_ends_a_line() -> None:
    """The kernel leaves all other characters in a file's name as they are."""
    line = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42 /tmp/a\x0cb\x85c\u2028d"
    (found,) = parse_maps(f"{line}\n".encode())
    assert found.path == "/tmp/a\x0cb\x85c\u2028d"


def test_mappings_of_gilk_are_recognised_by_name() -> None:
    """A checkout may be called gilk, and so may a program's own memory."""
    paths = {
        "/memfd:gilk-code-7-ab (deleted)": True,
        "/memfd:gilk-data-7-ab (deleted)": True,
        "/memfd:gilk-memory-7-ab (deleted)": True,
        "/memfd:gilk-raised-7-ab (deleted)": True,
        "/memfd:gilkscreen (deleted)": False,
        "/home/me/gilk/toolchain/program": False,
        "/home/me/memfd:gilk-code-7-ab": False,
        "": False,
    }
    text = "".join(f"7f0000000000-7f0000001000 r-xp 00000000 00:01 7 {path}\n" for path in paths)
    assert [mapping.ours for mapping in parse_maps(text.encode())] == list(paths.values())

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the pages that a process uses in memory or swap; it may have reserved terabytes of which it uses little.

Since Linux 6.7 the ioctl PAGEMAP_SCAN (linux/fs.h) lists used pages, and skips all others. Older kernels report eight
bytes for each page that could exist (Documentation/admin-guide/mm/pagemap.rst).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterator

import numpy as np

_PAGE = 4096
_PART = 1 << 30  # bytes of the address space of which words are read at a time
_THERE = np.uint64(0b11 << 62)  # in memory or in swap
_PRESENT, _SWAPPED = 1 << 3, 1 << 4  # PAGE_IS_PRESENT, PAGE_IS_SWAPPED
_ROOM = 1024  # regions of one answer


class _Scan(ctypes.Structure):
    """struct pm_scan_arg."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("size", "flags", "start", "end", "walk_end", "vec", "vec_len")),
        *((name, ctypes.c_uint64) for name in ("max_pages", "category_inverted", "category_mask")),
        *((name, ctypes.c_uint64) for name in ("category_anyof_mask", "return_mask")),
    ]


class _Region(ctypes.Structure):
    """struct page_region."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("start", "end", "categories")]


_READ_AND_WRITE = 3
PAGEMAP_SCAN = _READ_AND_WRITE << 30 | ctypes.sizeof(_Scan) << 16 | ord("f") << 8 | 16


def used(pagemap: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of used pages between two addresses, in ascending order; no two of them touch. ``pagemap``: a
    descriptor of /proc/PID/pagemap. Raises OSError."""
    low = high = start
    for first, last in _asked(pagemap, start, end):
        if first > high:
            if high > low:
                yield low, high
            low = first
        high = last
    if high > low:
        yield low, high


def _asked(pagemap: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The stretches of used pages as the kernel lists them; some of them may touch."""
    regions = (_Region * _ROOM)()
    scan = _Scan(
        size=ctypes.sizeof(_Scan), walk_end=start, end=end, vec=ctypes.addressof(regions), vec_len=_ROOM,
        category_anyof_mask=_PRESENT | _SWAPPED, return_mask=_PRESENT,
    )  # fmt: skip
    while scan.walk_end < end:
        scan.start = before = scan.walk_end
        try:
            count = fcntl.ioctl(pagemap, PAGEMAP_SCAN, scan)
        except OSError:
            yield from _read(pagemap, before, end)
            return
        yield from ((region.start, region.end) for region in regions[:count])
        if scan.walk_end <= before:  # so it does where what was mapped there has gone
            return


def _read(pagemap: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    for low in range(start, end, _PART):
        pages = (min(low + _PART, end) - low) // _PAGE
        words = np.frombuffer(os.pread(pagemap, 8 * pages, low // _PAGE * 8), np.uint64)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], (words & _THERE) != 0, [False])).astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            yield low + first * _PAGE, low + last * _PAGE

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keeps processor caches warm for a program whose code is being changed.

The code that it will execute next is read just before the change: copies of code, and patches, were written long ago,
and a program that meets thousands of lines in no cache is slow until it has them. And the process that changes the code
keeps off the stopped threads' processors, whose caches it would fill with other data.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gilk.targets.batch import Batch, Int
from gilk.targets.copies import Copy
from gilk.targets.memory import Memory

_PAGE = 4096
_MOST = 4 << 20  # bytes; more would evict what was read first
_NEAR = 4  # pages between two ranges that cost less to read than a further system call
_libc = ctypes.CDLL(None)

Range = tuple[int, int]


def ranges(busy: Iterable[Batch], copies: Sequence[Copy]) -> list[Range]:
    """(address, size) of the pages with the patches of units that are often executed, and with the copied code that is
    going to be executed in place of theirs."""
    pages = [np.empty(0, np.int64)]
    for batch in busy:
        pages.append(_pages(batch.low, batch.high))
        low, high = _extents(batch)
        for copy in copies:
            inside = (low >= copy.start) & (high < copy.end)
            pages.append(_pages(low[inside], high[inside]) + (copy.hidden - copy.start) // _PAGE)
    return _joined(np.unique(np.concatenate(pages))[: _MOST // _PAGE])


def read(memory: Memory, wanted: Iterable[Range]) -> None:
    for address, size in wanted:
        memory.some(address, size)


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """A context in which the calling thread stays on its processor, and so off those that stopped threads leave
    idle."""
    allowed = os.sched_getaffinity(0)
    with contextlib.suppress(OSError, ValueError):  # its affinity was just changed, or its processor is unknown
        os.sched_setaffinity(0, {_libc.sched_getcpu()})
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, allowed)


def _extents(batch: Batch) -> tuple[Int, Int]:
    """The addresses of the first and the last byte that each unit changes."""
    if not len(batch.at):
        return batch.at, batch.at
    order = np.lexsort((batch.at, batch.at_unit))
    at, unit = batch.at[order], batch.at_unit[order]
    edges = np.flatnonzero(np.diff(unit))
    return at[np.append(0, edges + 1)], at[np.append(edges, len(at) - 1)]


def _pages(low: Int, high: Int) -> Int:
    """The numbers of the pages from each ``low`` to its ``high``, both included."""
    first, count = low // _PAGE, high // _PAGE - low // _PAGE + 1
    within = np.arange(count.sum(), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    pages: Int = np.repeat(first, count) + within
    return pages


def _joined(pages: Int) -> list[Range]:
    if not len(pages):
        return []
    edges = np.flatnonzero(np.diff(pages) > _NEAR)
    firsts, lasts = pages[np.append(0, edges + 1)], pages[np.append(edges, len(pages) - 1)]
    return [(int(a) * _PAGE, int(b - a + 1) * _PAGE) for a, b in zip(firsts, lasts, strict=True)]

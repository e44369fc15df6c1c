# SPDX-License-Identifier: LGPL-2.1-or-later
"""Separates the calls of a part of a trace that need no further thought from the records that stand for all the others.

A call is *plain* if its entry and its return match and everything between them is plain calls with lower stack pointers
on the same stack. The records of plain calls are left out of the input of `flow_build`, except those that can be
evidence for other calls (evidence.py): an event shows that a call is gone if it is the first that is high enough, and
that a call had not begun if it is the last. Among plain calls that come one after the other, those are the ones that
lie higher than all before, or than all behind; never one that lies within another plain call. So the flow of the rest
is the flow of all without the plain calls; and these lie in it where their neighbours do.

`flow_build` needs more records than that, and they are kept: those that show which functions have right pairs (a pair
of each), which parts of the address space are one stack (the highest and the lowest event of each 32 KiB), and what
comes first and last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.trace.nesting import Bools, Ints
from gilk.values import dataclass

Places = NDArray[Any]  # integers of 32 or 64 bits
_HOLE = 1 << 16  # in bytes; the same as between two stacks in evidence.py
_KERNEL_STACK = 14  # the bits of an address within a stack
_PAGE = 15  # the bits of an address within a page: half a hole, so that a page is on one stack
_PAGES = 1 << 32 - _PAGE
_RADIX = 1 << 16  # numbers below it are sorted in linear time
MOST_STACKS = 512  # the most stacks whose pages are remembered; each takes a megabyte


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Samples as columns: time in ns, the number of the thread, side (1 an entry, -1 a return, 0 anything else), sp,
    symbol. ``kernel`` and ``odd`` are by symbol: whether it is the kernel's, and whether its calls are never plain.
    ``walls``: rows before and behind which every thread's nearest events are kept.
    """

    time: Ints
    thread: NDArray[np.uint16]
    side: NDArray[np.int8]
    sp: NDArray[np.uint32]
    symbol: NDArray[np.int32]
    kernel: Bools
    odd: Bools
    walls: Ints


@dataclass(frozen=True, eq=False)
class Plain:
    """Plain calls that were left out, thread by thread, in the order of their entries: start and duration in ns,
    symbol, level. ``counts``: the number of them, by thread.

    Calls that follow a kept plain call are ``inside`` it, or come ``after`` it, up to the next one; both are numbers of
    calls. ``record``: the place of each kept plain call's entry among the kept rows, in the order of threads;
    ``record_level``: its level.
    """

    start: Ints
    duration: Ints
    symbol: NDArray[np.int32]
    levels: NDArray[np.int32]
    counts: Ints
    record: Ints
    record_level: NDArray[np.int32]
    inside: Ints
    after: Ints


@dataclass(frozen=True, eq=False)
class Reduced:
    """``rows``: the rows that are kept. For each of them ``before``: the number of left-out calls that the same thread
    had entered before; ``number``: the number of entries and returns before; ``next_row``: the row of the next event,
    or the number of rows.
    """

    rows: Ints
    before: Ints
    number: Ints
    next_row: Ints
    plain: Plain


class EarlierParts:
    """Facts about earlier parts: the functions that had a plain call in them, and the lowest and highest address used
    on each thread's pages.
    """

    def __init__(self) -> None:
        self._symbols = np.zeros(0, np.bool_)
        self._pages: dict[int, tuple[NDArray[np.uint32], NDArray[np.uint32]]] = {}

    @property
    def too_many(self) -> bool:
        return len(self._pages) > MOST_STACKS

    def fresh(self, symbol: NDArray[np.int32], count: int) -> Ints:
        """The first place of each symbol that earlier parts do not have."""
        if len(self._symbols) < count:
            self._symbols = np.append(self._symbols, np.zeros(count - len(self._symbols), np.bool_))
        places = np.flatnonzero(~self._symbols[symbol])
        first = places[np.unique(symbol[places], return_index=True)[1]]
        self._symbols[symbol[first]] = True
        return first

    def edges(self, thread: int, sp: NDArray[np.uint32]) -> Ints:
        """The places at which sp is the new lowest or highest of its page."""
        if not len(sp) or self.too_many:
            return np.empty(0, np.int64)
        if thread not in self._pages:
            self._pages[thread] = np.full(_PAGES, 0xFFFFFFFF, np.uint32), np.zeros(_PAGES, np.uint32)
        page = (sp >> _PAGE).astype(np.intp)
        found = []
        for known, better in zip(self._pages[thread], (np.minimum, np.maximum), strict=True):
            used = known[page]
            most = known.copy()
            better.at(most, page, sp)
            changed = np.flatnonzero((most[page] != used) & (sp == most[page]))
            found.append(changed[np.unique(page[changed], return_index=True)[1]])
            known[:] = most
        return np.concatenate(found)

    def shared(self, process: Ints) -> bool:
        """Whether two threads of one process have used the same addresses; ``process`` is by thread."""
        by_process: dict[int, NDArray[np.bool_]] = {}
        used: dict[int, NDArray[np.bool_]] = {}
        for key, (low, high) in self._pages.items():
            used[key % _RADIX] = used.get(key % _RADIX, np.zeros(_PAGES, np.bool_)) | (low <= high)
        for thread, mine in used.items():
            others = by_process.setdefault(int(process[thread]), np.zeros(_PAGES, np.bool_))
            if (others & mine).any():
                return True
            others |= mine
        return False


def reduce(part: RecordColumns, seen: EarlierParts, threads: int) -> Reduced:
    """The reduction of a part. ``threads`` is the number of all threads so far."""
    return _Reduction(part, seen, threads).reduced()


class _Reduction:
    """Makes the reduction in steps. Events are in the order of threads, and of time; `_event` has the row of each."""

    def __init__(self, part: RecordColumns, seen: EarlierParts, threads: int) -> None:
        self._part, self._seen, self._threads = part, seen, threads
        events = np.flatnonzero(part.side).astype(np.int32)
        by_thread = np.argsort(part.thread[events], kind="stable")
        self._events, self._event = events, events[by_thread]
        self._thread = part.thread[self._event]
        self._edges = np.searchsorted(self._thread, np.arange(threads + 1))
        self._sp, self._symbol = part.sp[self._event].astype(np.int64), part.symbol[self._event]
        self._kernel = part.kernel[self._symbol]
        self._step = part.side[self._event]

    def reduced(self) -> Reduced:
        count = len(self._event)
        first, last, level = self._pairs()
        good = ~self._apart(first, last)
        kept = np.ones(count, np.bool_)
        kept[first[good]] = kept[last[good]] = False
        self._protect(kept, first[good])
        sums = np.cumsum(kept, dtype=np.int32)
        plain = good & (sums[first] == sums[last]) & ~kept[first]
        first, last, level = first[plain], last[plain], level[plain]
        cover = np.zeros(count + 1, np.int8)
        cover[first] = 1
        cover[last] = -1
        depth = np.cumsum(cover[:-1], dtype=np.int32)
        partner = np.zeros(count, np.int32)
        partner[first], levels = last, np.zeros(count, np.int32)
        levels[first] = level
        tops = np.flatnonzero((cover[:-1] == 1) & (depth == 1))
        outside = (depth == 0) & (cover[:-1] == 0)
        record = tops[self._evident(tops, np.cumsum(outside, dtype=np.int32)[tops])]
        kept = outside
        kept[record] = kept[partner[record]] = True
        entries = np.flatnonzero((cover[:-1] == 1) & ~kept)
        return self._made(kept, entries, partner, levels, record)

    def _pairs(self) -> tuple[Places, Places, Places]:
        """The rows of entries, the rows of the returns that follow them at the same level, and their levels."""
        height = np.cumsum(self._step, dtype=np.int32)
        height[self._step > 0] -= 1  # before an entry, and after a return
        starts: Places = self._edges[:-1][np.diff(self._edges) > 0]
        if not len(starts):
            self._row_order = self._rows = np.empty(0, np.int32)
            return self._row_order, self._row_order, self._row_order
        low, high = np.minimum.reduceat(height, starts), np.maximum.reduceat(height, starts)
        base = np.cumsum(np.append(0, high - low + 1))
        lengths = np.diff(np.append(starts, len(height)))
        row = height + np.repeat((base[:-1] - low).astype(np.int32), lengths)
        order = np.argsort(row.astype(np.uint16) if base[-1] < _RADIX else row, kind="stable").astype(np.int32)
        enters = self._step[order] > 0
        pair = np.flatnonzero(enters[:-1] & ~enters[1:] & (row[order[:-1]] == row[order[1:]]))
        self._row_order, self._rows = order, row
        first = order[pair]
        return first, order[pair + 1], height[first]

    def _apart(self, first: Places, last: Places) -> Bools:
        """A mask of the pairs that belong to different calls, or lie outside the stack below that of the call around
        them.
        """
        wrong: Bools = (self._symbol[first] != self._symbol[last]) | (self._sp[first] != self._sp[last])
        wrong |= self._part.odd[self._symbol[first]]
        around = self._around()[first]
        inner = np.flatnonzero(around >= 0)
        outer, mine = around[inner], first[inner]
        in_kernel = self._kernel[mine]
        below = self._sp[outer] - self._sp[mine]
        same = np.where(in_kernel, self._sp[outer] >> _KERNEL_STACK == self._sp[mine] >> _KERNEL_STACK, below <= _HOLE)
        crossing = self._kernel[outer] != in_kernel
        bad = np.where(crossing, ~in_kernel, (below <= 0) | ~same)
        wrong[inner[bad]] = True
        return wrong

    def _around(self) -> Places:
        """The entry of the call around each entry, if it is in this part; otherwise -1."""
        order = self._row_order[self._step[self._row_order] > 0]
        before = np.maximum(order - 1, 0)
        leads = (self._step[before] > 0) & (order > 0) & (self._thread[before] == self._thread[order])
        starts = np.append(True, self._rows[order[1:]] != self._rows[order[:-1]])
        own = np.where(leads, order - 1, -1)
        known = np.where(leads | starts, np.arange(len(order), dtype=np.int32), 0)
        found = np.full(len(self._event), -1, np.int32)
        found[order] = own[np.maximum.accumulate(known)] if len(order) else own
        return found

    def _protect(self, kept: Bools, good: Places) -> None:
        """Mark as kept the events that `flow_build` needs besides evidence."""
        starts, ends = self._edges[:-1], self._edges[1:]
        there = ends > starts
        kept[starts[there]] = kept[ends[there] - 1] = True
        kept[good[self._seen.fresh(self._symbol[good], len(self._part.kernel))]] = True
        for thread in np.flatnonzero(there).tolist():
            mine = slice(int(starts[thread]), int(ends[thread]))
            user = np.flatnonzero(~self._kernel[mine])
            kept[mine.start + user[self._seen.edges(thread, self._sp[mine][user].astype(np.uint32))]] = True
            inner = np.flatnonzero(self._kernel[mine])
            self._seen.edges(thread + _RADIX, self._sp[mine][inner].astype(np.uint32))
            for wall in self._part.walls.tolist():
                at = mine.start + int(np.searchsorted(self._event[mine], wall))
                kept[max(at - 1, mine.start)] = kept[min(at, mine.stop - 1)] = True

    def _evident(self, tops: Places, outside: Places) -> Bools:
        """A mask of the plain calls that may be evidence for other calls, or are the first or last of those that come
        one after the other; ``outside``: the number of events so far that are not of plain calls.
        """
        if not len(tops):
            return np.zeros(0, np.bool_)
        found = np.zeros(len(tops), np.bool_)
        apart = np.append(True, outside[1:] != outside[:-1])
        lanes = [np.flatnonzero(self._kernel[tops] == lane) for lane in (False, True)]
        for lane, places in enumerate(lanes):
            sp = self._sp[tops[places]]
            far = sp[1:] >> _KERNEL_STACK != sp[:-1] >> _KERNEL_STACK if lane else np.abs(np.diff(sp)) > _HOLE
            apart[places[1:][far]] = True
        segment = np.cumsum(apart, dtype=np.int64)
        for places in lanes:
            key = segment[places] << 32 | self._sp[tops[places]]
            found[places] |= _higher(key)
            key = (segment[-1] + 1 - segment[places]) << 32 | self._sp[tops[places]]
            found[places] |= _higher(key[::-1])[::-1]
        return np.asarray(found | apart | np.append(apart[1:], True))

    def _made(self, kept: Bools, entries: Places, partner: Places, levels: Places, record: Places) -> Reduced:
        part, count = self._part, len(self._event)
        left_out = np.zeros(count + 1, np.int64)
        left_out[entries + 1] = 1
        before = np.cumsum(left_out)
        by_thread = np.diff(before[self._edges])
        own = before[:-1] - np.repeat(before[self._edges[:-1]], np.diff(self._edges))
        other = np.flatnonzero(part.side == 0)
        rows = np.concatenate([self._event[kept], other])
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        number = np.searchsorted(self._events, rows)
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        among_kept = np.cumsum(kept) - 1
        is_event = part.side[rows] != 0
        end = partner[record]
        following = np.append(before[record[1:]], before[-1:])
        plain = Plain(
            start=part.time[self._event[entries]],
            duration=part.time[self._event[partner[entries]]] - part.time[self._event[entries]],
            symbol=self._symbol[entries], levels=levels[entries], counts=by_thread, record=place[among_kept[record]],
            record_level=levels[record], inside=before[end] - before[record],
            after=following[: len(record)] - before[end],
        )  # fmt: skip
        return Reduced(
            rows=rows,
            before=np.concatenate([own[kept], np.zeros(len(other), np.int64)])[order],
            number=number,
            next_row=np.append(self._events, len(part.time))[number + is_event],
            plain=plain,
        )


def _higher(keys: Places) -> Bools:
    """A mask of the keys that are greater than all before them."""
    if not len(keys):
        return np.zeros(0, np.bool_)
    most = np.maximum.accumulate(keys)
    return np.append(True, keys[1:] > most[:-1])

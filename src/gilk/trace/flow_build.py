# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes a Flow of records: matches entries and returns, finds the missing ends, and makes the calls of a thread nest.

A *place* is twice an event's number, and odd between two events: so a call that ends with an event that belongs to
another call ends just before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from gilk.trace import evidence, executed
from gilk.trace.about import About, Tally
from gilk.trace.calls import Matches, cut_by_gaps, match
from gilk.trace.evidence import Events
from gilk.trace.flow import KERNEL, SCHEMA, STATES, USER, Flow
from gilk.trace.halves import Ends
from gilk.trace.nesting import Bools, Intervals, Ints, Tree, crossed_tracks, nest
from gilk.trace.probes import RecordKind
from gilk.trace.traced import NEVER, Omitted, Unended
from gilk.values import dataclass

_WHOLE, _LEFT, _OPEN, _BEFORE, _CUT, _CLOSED = range(6)
_EVER = int(np.iinfo(np.int64).max)
#: A thread ends in these functions: its calls under way then are not running when the trace stops.
_LAST = ("_exit", "_Exit", "__GI__exit", "do_task_dead")


def build(samples: pa.Table, about: About, tally: Tally) -> Flow:
    """The flow of a table of samples that is in order of time."""
    flow = build_with_rows(samples, about, tally)[0]
    return flow.shallower(tally.trace.depth) if tally.trace is not None and tally.trace.depth > 0 else flow


def build_with_rows(samples: pa.Table, about: About, tally: Tally) -> tuple[Flow, Ints]:
    """The flow in all its depth; and for each call the row in `samples` of its entry, or if that is missing of its
    return.
    """
    made = build_placed(samples, about, tally)
    return made.flow, made.rows


@dataclass(frozen=True, eq=False)
class PlacedFlow:
    """A flow; and for each call the row in the samples of its entry, or if that is missing of its return, and the place
    at which it begins. `events` are the rows of the samples that are entries and returns: places count by them.
    """

    flow: Flow
    rows: Ints
    begin: Ints
    events: Ints


@dataclass(frozen=True, eq=False)
class Around:
    """Information for samples that are only a part of all (calls that were left out neither end nor begin other calls):
    for each sample its number among all events (for a sample that is no event, that of the next one), and the time of
    the next event in ns.
    """

    number: Ints
    next_time: Ints


def build_placed(samples: pa.Table, about: About, tally: Tally, around: Around | None = None) -> PlacedFlow:
    samples = samples.unify_dictionaries()
    found = match(samples)
    start, stop = _bounds(samples, tally)
    unended = _unended(about, tally)
    omitted = tally.trace.omitted if tally.trace is not None else ()
    built = _Builder(samples, about, found, start, stop, unended, omitted, around) if len(found.rows) else None
    none = np.empty(0, np.int64)
    table, rows, begin = built.table() if built is not None else (SCHEMA.empty_table(), none, none)
    flow = _flow(table, samples, start, stop, unended, tally)
    return PlacedFlow(flow, rows, begin, found.rows.astype(np.int64))


def _flow(
    table: pa.Table, samples: pa.Table, start: int, stop: int, unended: tuple[Unended, ...], tally: Tally
) -> Flow:
    dropped = samples.take(pa.array(gap_rows(samples))).select(["pid", "tid", "time"]).to_pylist()
    gaps = tuple((row["pid"], row["tid"], row["time"]) for row in dropped)
    if tally.trace is None:
        return Flow(table, start, stop, gaps, (), tally.drops, (), unended)
    return Flow(table, start, stop, gaps, tally.trace.omitted, tally.drops, tally.trace.unfollowed, unended)


def _unended(about: About, tally: Tally) -> tuple[Unended, ...]:
    """The functions of which not all returns are recorded; in a plain run, those with refused return points."""
    if tally.trace is not None:
        return tally.trace.unended
    rows = ((row, tally.refused.get(row.point)) for row in about.probes if row.kind == RecordKind.RETURN)
    return tuple(dict.fromkeys(Unended(row.function, row.image, why) for row, why in rows if why is not None))


def _bounds(samples: pa.Table, tally: Tally) -> tuple[int, int]:
    """The beginning and the end of the trace in ns, as its description says, extended to contain all of its records. If
    its writer was stopped, it ends when it was last noted that all records had been taken."""
    time = np.asarray(samples["time"])
    first, last = (int(time[0]), int(time[-1])) if len(time) else (0, 0)
    if tally.trace is None:
        return first, last
    start = min(tally.trace.start_ns, first) if len(time) else tally.trace.start_ns
    taken = tally.duration if tally.partial and tally.trace.stop_ns == NEVER else 0
    return start, max(tally.trace.stop_ns, last, start, taken)


class _Builder:
    """Makes the calls in steps, which share the columns of the events. A call is named by an event: its entry, or if
    that is missing its return.
    """

    def __init__(
        self, samples: pa.Table, about: About, found: Matches, start: int, stop: int, unended: tuple[Unended, ...],
        omitted: tuple[Omitted, ...], around: Around | None,
    ) -> None:  # fmt: skip
        self._samples, self._about, self._found = samples, about, found
        self._start, self._stop = start, stop
        self._time = np.asarray(samples["time"])[found.rows]
        self._number = np.arange(len(found.rows)) if around is None else around.number[found.rows]
        self._next_time = np.append(self._time[1:], self._time[-1:]) if around is None else around.next_time[found.rows]
        self._pid, self._tid = (np.asarray(samples[name])[found.rows] for name in ("pid", "tid"))
        self._function = np.asarray(samples["function"].combine_chunks().indices)[found.rows]
        self._names = samples["function"].combine_chunks().dictionary.to_pylist()
        self._image, self._images = _images(samples["point"].combine_chunks(), found.rows, about)
        self._unended = self._of(unended)
        self._until = self._given_up(omitted)
        self._threads = self._pid.astype(np.int64) << 32 | self._tid.view(np.uint32)
        programs = executed.programs(samples)
        self._program, self._program_ends = programs[found.rows], executed.ends(samples, programs)
        self._events = Events(
            thread=_by_first(np.unique(self._threads, return_inverse=True)[1] << 32 | self._program),
            sp=np.asarray(samples["sp"])[found.rows].astype(np.int64),
            kernel=self._image == (self._images.index(KERNEL) if KERNEL in self._images else -1),
            entry=found.entry,
            rounds=found.rounds,
        )

    def table(self) -> tuple[pa.Table, Ints, Ints]:
        """The calls, for each the row of the samples by which it is named, and the place at which it begins."""
        at, begin, end, state = self._calls()
        guessed = (state == _LEFT) | (state == _OPEN) | (state == _CLOSED)
        stack = self._stacks(at, begin, end, guessed)
        track = np.unique(self._events.thread[at] << 32 | stack, return_inverse=True)[1].astype(np.int64)
        trimmed, nested = nest(Intervals(track, begin, end), guessed)
        state[(trimmed < end) & (state != _BEFORE)] = _LEFT
        state[(state == _LEFT) & self._unended[at]] = _CLOSED
        start, stop = self._start_times(at, begin, trimmed), self._stop_times(at, trimmed, state)
        order = nested.order
        stop = self._stopped_at_last(at, start, stop, state, nested)
        columns = self._named_by(at[order])
        columns |= {"start": start[order], "duration": np.maximum(stop - start, 0)[order], "stack": stack[order]}
        columns |= {"depth": nested.depth, "parent": nested.parent, "state": _coded(state[order], STATES)}
        table = pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
        return table, self._found.rows[at[order]].astype(np.int64), begin[order]

    def _stopped_at_last(self, at: Ints, start: Ints, stop: Ints, state: Ints, nested: Tree) -> Ints:
        """The ends of the calls, none later than the time from which the function of a call around it was not followed
        any more; calls that end so are changed in `state` to left.
        """
        until = np.maximum(self._until[at], start)
        lost = (until < stop) & (state != _WHOLE) & (state != _BEFORE) & (state != _CUT)
        state[lost] = _LEFT
        ends, order = stop.copy(), nested.order
        shallow = np.append(nested.depth, 0)
        behind, limit = 0, 0
        for place in np.flatnonzero(lost[order]).tolist():
            if place < behind and until[order[place]] >= limit:
                continue  # a call around it has been handled
            behind, limit = place + 1 + int(np.argmax(shallow[place + 1 :] <= shallow[place])), until[order[place]]
            mine = order[place:behind]
            ends[mine] = np.minimum(ends[mine], limit)
        return ends

    def _given_up(self, omitted: tuple[Omitted, ...]) -> Ints:
        """The time, in ns, from which each event's function is not followed: no return of it is recorded from
        then on.
        """
        until = np.full(len(self._time), _EVER, np.int64)
        for each in omitted:
            until[self._of([each])] = each.from_ns
        return until

    def _of(self, functions: Iterable[Unended | Omitted]) -> Bools:
        """A mask of the events of these functions."""
        names = {name: code for code, name in enumerate(self._names)}
        images = {name: code for code, name in enumerate(self._images)}
        wanted = {(names.get(each.function, -2), images.get(each.image, -2)) for each in functions}
        keys = np.array([function << 32 | image for function, image in wanted if min(function, image) >= 0], np.int64)
        return np.isin(self._function.astype(np.int64) << 32 | self._image, keys)

    def _calls(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The event of each call, the places at which the call begins and ends, and its state."""
        found, events, count = self._found, self._events, len(self._time)
        split, cut = self._apart()
        first, last = found.first[~split], found.last[~split]
        alone = np.concatenate([found.abandoned, found.open, found.first[split]])
        orphans = np.concatenate([found.orphans, found.last[split]])
        gone = np.minimum(evidence.gone_after(events, alone), self._left_out_after(alone))
        one, other = Ends(events, self._function, first, last, alone, orphans).halves(gone)
        first, last = np.concatenate([first, alone[one]]), np.concatenate([last, orphans[other]])
        alone, gone, orphans = np.delete(alone, one), np.delete(gone, one), np.delete(orphans, other)
        earliest, since = self._earliest(orphans)
        earliest, orphans = earliest[~since], orphans[~since]
        cut = np.append(cut[~split], np.zeros(len(one), np.bool_))
        state = np.concatenate(
            [np.where(cut, _CUT, _WHOLE), np.where(gone < count, _LEFT, _OPEN), np.full(len(orphans), _BEFORE)]
        )
        at = np.concatenate([first, alone, orphans])
        begin = np.concatenate([2 * first, 2 * alone, earliest])
        end = np.concatenate([2 * last, np.where(gone < count, 2 * gone - 1, 2 * count + 1), 2 * orphans])
        return at, begin, end, state

    def _left_out_after(self, alone: Ints) -> Ints:
        """The first event after each of ``alone`` at which its function is no longer followed."""
        return np.maximum(np.searchsorted(self._time, self._until[alone], "right"), alone + 1)

    def _apart(self) -> tuple[Bools, Bools]:
        """Masks of the pairs that are two calls, and of those that may be, because records were dropped in between."""
        found = self._found
        split = cut_by_gaps(self._samples, found.rows[found.first], found.rows[found.last])
        cut = split.copy()
        split[cut] = evidence.gone_after(self._events, found.first[cut]) < found.last[cut]
        alone = np.concatenate([found.abandoned, found.open])
        split |= Ends(self._events, self._function, found.first, found.last, alone, found.orphans).mistaken()
        return split, cut & ~split

    def _earliest(self, orphans: Ints) -> tuple[Ints, Bools]:
        """The earliest begin of calls of which only the return was recorded; and a mask of those that began after the
        start.

        The latter are no calls, since their entry would have been recorded: something jumped into the middle of the
        function, as into a part of another that has no name of its own, and back again.
        """
        last = evidence.not_yet_before(self._events, orphans)
        begin = np.where(last >= 0, 2 * last + 1, -1)
        since = last >= 0
        for row in gap_rows(self._samples).tolist():
            same = self._threads[orphans] == _thread(self._samples, row)
            later = same & (self._found.rows[orphans] > row)
            begin[later] = np.maximum(begin[later], 2 * int(np.searchsorted(self._found.rows, row)) - 1)
            since[later] = False
        return begin, since

    def _stacks(self, at: Ints, begin: Ints, end: Ints, guessed: Bools) -> Ints:
        """The number of each call's stack within its thread; 0 in threads that need not be divided."""
        thread = self._events.thread[at]
        sure = ~guessed
        crossed = crossed_tracks(Intervals(thread[sure], begin[sure], end[sure]))
        number = np.zeros(len(at), np.int64)
        if len(crossed):
            divided = np.isin(thread, crossed)
            number[divided] = _within(thread[divided], _by_first(self._events.stack)[at[divided]])
        return number if not self._program.any() else number + self._earlier_stacks(thread, number)

    def _earlier_stacks(self, thread: Ints, number: Ints) -> Ints:
        """The number of stacks that each call's thread had in earlier programs of its process; each program has its
        own. ``thread`` and ``number``: the threads of calls, which differ between programs, and the numbers of their
        stacks there.
        """
        count = np.zeros(int(thread.max(initial=-1)) + 1, np.int64)
        np.maximum.at(count, thread, number + 1)
        first = np.unique(self._events.thread, return_index=True)[1]  # threads are numbered by their first events
        before = np.zeros(len(first), np.int64)
        sums: dict[int, int] = {}
        for at, identity in enumerate(self._threads[first][: len(count)].tolist()):
            before[at] = sums.get(identity, 0)
            sums[identity] = int(before[at] + count[at])
        return before[thread]

    def _start_times(self, at: Ints, begin: Ints, end: Ints) -> Ints:
        """The begin of calls without an entry, in ns. In a process made after the start, and in a program executed
        since, nothing was entered before the first event.
        """
        first = self._time[np.unique(self._events.thread, return_index=True)[1]][self._events.thread[at]]
        known = np.isin(self._pid[at], self._about.pids) & (self._program[at] == 0)
        before = np.maximum(begin // 2, 0)
        between = end[end % 2 == 1]
        numbers = np.append(self._number, self._number[-1:] + 1)
        ended = numbers[np.minimum((between + 1) // 2, len(self._number))]
        later = (begin % 2 == 1) & np.isin(self._number[before] + 1, ended)
        # If another call ends between the same two events, the time of the later one.
        time = np.where(later, self._next_time[before], self._time[before])
        return np.where(begin < 0, np.where(known, self._start, first), time)

    def _stop_times(self, at: Ints, end: Ints, state: Ints) -> Ints:
        """The end of calls without a return, in ns; the calls of threads that have ended are changed in `state` from
        open to left.
        """
        times = np.concatenate([self._time, [self._stop, self._stop]])[(end + 1) // 2]
        thread = self._events.thread
        running = np.flatnonzero(state == _OPEN)
        innermost = {int(thread[at[n]]): n for n in running[np.argsort(at[running])].tolist()}
        names = self._samples["function"].combine_chunks()
        for number, call in innermost.items():
            if names[self._found.rows[at[call]]].as_py() in _LAST:
                ended = running[thread[at[running]] == number]
                state[ended] = _LEFT
                times[ended] = self._time[np.flatnonzero(thread == number)[-1]]
        self._end_with_program(at, times, state)
        return times

    def _end_with_program(self, at: Ints, times: Ints, state: Ints) -> None:
        """Have calls that are under way when their process executes another program, or ends, end then."""
        for call in np.flatnonzero(state == _OPEN).tolist() if self._program_ends else ():
            end = self._program_ends.get((int(self._pid[at[call]]), int(self._program[at[call]])))
            if end is not None:
                state[call], times[call] = _LEFT, end

    def _named_by(self, at: Ints) -> dict[str, Any]:
        """The columns whose values are those of the call's event."""
        taken = self._samples.select(["thread", "function"]).take(pa.array(self._found.rows[at]))
        return {
            **{name: taken[name].combine_chunks() for name in taken.column_names},
            **{"pid": self._pid[at], "tid": self._tid[at], "image": _coded(self._image[at], self._images)},
            "lane": _coded(self._events.kernel[at], (USER, KERNEL)),
        }


def gap_rows(samples: pa.Table) -> Ints:
    """The rows that say that records are missing before them."""
    kinds = samples["kind"].combine_chunks()
    names = kinds.dictionary.to_pylist()
    code = names.index(str(RecordKind.GAP)) if RecordKind.GAP in names else -2
    return np.flatnonzero(np.asarray(kinds.indices.fill_null(-1)) == code)


def _thread(samples: pa.Table, row: int) -> int:
    return int(samples["pid"][row].as_py()) << 32 | int(samples["tid"][row].as_py()) & 0xFFFFFFFF


def _images(points: pa.Array, rows: Ints, about: About) -> tuple[Ints, list[str]]:
    """The code of the image of each row's point, and the names of images; the last name, '', stands for
    unknown ones.
    """
    by_point = {probe.point: probe.image for probe in about.probes}
    of_points = [by_point.get(point, "") for point in points.dictionary.to_pylist()]
    names = [*dict.fromkeys(name for name in of_points if name), ""]
    codes = {name: code for code, name in enumerate(names)}
    by_code = np.array([*(codes[name] for name in of_points), len(names) - 1], np.int64)
    return by_code[np.asarray(points.indices.fill_null(-1))[rows]], names


def _coded(codes: Ints | Bools, names: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array([str(n) for n in names]))


def _by_first(values: Ints) -> Ints:
    """Each value's rank among the different ones, in the order in which they first occur."""
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    rank: Ints = np.argsort(np.argsort(first))[which]
    return rank


def _within(groups: Ints, values: Ints) -> Ints:
    """Each value's rank among the different ones of its group."""
    pairs, which = np.unique(groups << 32 | values, return_inverse=True)
    starts = np.unique(pairs >> 32, return_index=True, return_inverse=True)
    rank: Ints = (np.arange(len(pairs)) - starts[1][starts[2]])[which]
    return rank

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time line of a file of samples, from an index that is kept in the cache, or made if there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from gilk.cache import columns
from gilk.cache.columns import Columns, Room
from gilk.cache.key import made_of, sources
from gilk.digest import state_of
from gilk.errors import StoreError
from gilk.render import timeline
from gilk.render.flow_table import missing_text
from gilk.render.flow_tree import missing_below
from gilk.render.names import readable_in
from gilk.render.timeline_parts import TimelineParts
from gilk.render.trace_names import with_readable_names
from gilk.trace import call_index, long_flow
from gilk.trace.call_index import PART, CallIndex, Track
from gilk.trace.part_reading import Whole
from gilk.trace.reading import Trace, read, reading_parts

Json = dict[str, Any]
Progress = Callable[[int, int], None]
_KIND: Final = "traces"
_ROWS: Final = 750_000  # the number of samples that are read at once
_NOTE: Final = "its index could not be kept, and is made anew next time: {}"


def opened(path: Path, progress: Progress = lambda _done, _of: None) -> TimelineParts:
    """The time line of a file. ``progress`` is given the number of samples read so far, and that of all. Raises
    StoreError.
    """
    key = _key(path)
    found = columns.load(_KIND, key)
    if found is not None:
        try:
            return _parts(found)
        except (KeyError, TypeError, ValueError, IndexError):  # the file in the cache was changed
            columns.forget(_KIND, key)
    found = columns.make(_KIND, key, lambda room: _made(path, room, progress))
    if _key(path) != key:  # the file of samples was changed meanwhile
        columns.forget(_KIND, key)
    return _parts(found)


def again(path: Path) -> TimelineParts:
    """The same as opened(), after the index was found damaged: it is made anew."""
    columns.forget(_KIND, _key(path))
    return opened(path)


def _key(path: Path) -> bytes:
    """The key of the file's index in the cache. Raises StoreError."""
    partial = path.with_name(path.name + ".partial")
    try:
        about = (path if path.exists() else partial).stat()
    except OSError as error:
        raise StoreError("no-such-file", f"no file {path}: {error.strerror}") from error
    return made_of((state_of(about), sources("trace", "render")), ())


def _parts(found: Columns) -> TimelineParts:
    about, head = found.about, found.about["head"]
    if found.why_not:
        head = {**head, "about": [*head["about"], _NOTE.format(found.why_not)]}
    symbols = tuple((str(name), str(image), str(lane)) for name, image, lane in about["symbols"])
    gaps = tuple((int(pid), int(tid), int(at)) for pid, tid, at in about["gaps"])
    tracks = tuple(Track(**each) for each in about["tracks"])
    first = np.asarray(about["first"], np.int64)
    index = CallIndex(tracks, symbols, about["start"], about["stop"], gaps, first, found.columns)
    missing = {(str(caller), str(image)): [*map(str, names)] for caller, image, names in about["missing"]}
    return TimelineParts(index, head, missing, str(about["lacking"]))


def _made(path: Path, room: Room, progress: Progress) -> Json:
    try:
        with reading_parts(path, _ROWS, long_flow.COLUMNS) as parts:
            if parts is not None:
                about, tally, count = parts.about, parts.tally, parts.rows
                made = long_flow.index(parts.tables, about, tally, room, lambda done: progress(done, count))
                return _described(_shown(Trace(path, about, tally, made[2]), made), made[0])
    except Whole:
        pass
    return _whole(path, room)


def _shown(trace: Trace, made: tuple[CallIndex, Any, Any]) -> Trace:
    trace.__dict__["flow"] = made[1]
    return with_readable_names(trace)


def _whole(path: Path, room: Room) -> Json:
    """Make the index of the whole file at once, if it cannot be made part by part."""
    trace = with_readable_names(read(path))
    made = call_index.of_flow(trace.flow)
    mine = room({name: (column.dtype.str, len(column)) for name, column in made.columns.items()})
    for name, column in made.columns.items():
        mine[name][:] = column
    return _described(trace, made)


def _described(trace: Trace, made: CallIndex) -> Json:
    symbols = _named(made)
    found = CallIndex(made.tracks, symbols, made.start_ns, made.stop_ns, made.gaps, made.first, made.columns)
    calls, own = found.figures([slice(0, found.calls)])
    rows = [
        {"function": name, "image": image, "lane": lane, "calls": int(calls[n]), "self": int(own[n])}
        for n, (name, image, lane) in enumerate(symbols)
    ]
    rows.sort(key=lambda row: (-int(str(row["self"])), str(row["function"])))
    return {
        "head": timeline.summary_of(trace, rows, found.tracks, symbols),
        "missing": [[*caller, names] for caller, names in missing_below(trace.flow).items()],
        "lacking": missing_text(trace.flow),
        "symbols": symbols,
        "tracks": [vars(each) for each in found.tracks],
        "start": found.start_ns,
        "stop": found.stop_ns,
        "gaps": found.gaps,
        "first": found.first.tolist(),
    }


def _named(made: CallIndex) -> tuple[tuple[str, str, str], ...]:
    """The symbols with names as in their source; symbols that become the same get one number."""
    names = [(readable_in(name), image, lane) for name, image, lane in made.symbols]
    distinct = {each: number for number, each in enumerate(dict.fromkeys(names))}
    if len(distinct) < len(names):
        numbers = np.array([distinct[each] for each in names], np.int32)
        symbol = made.columns["symbol"]
        for first in range(0, len(symbol), PART):
            symbol[first : first + PART] = numbers[symbol[first : first + PART]]
    return tuple(distinct)

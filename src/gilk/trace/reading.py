# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads a file that `gilk.trace.store` wrote, finished or not, and refuses any other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gilk.errors import StoreError
from gilk.trace import calls, flow_build, table_file
from gilk.trace.about import About, Tally, unpack
from gilk.trace.calls import CallTable
from gilk.trace.flow import Flow
from gilk.trace.samples import schema
from gilk.trace.store import ABOUT_KEY, TALLY_KEY
from gilk.trace.table_file import EVENTS_KEY, Stored
from gilk.values import dataclass

_WHAT, _MAKER = "a file of samples", "gilk run -o FILE"
_MARKS = {"extra": 1, "arg0": 2, "rax": 3}  # by the name of a column, the class of records that has it


@dataclass(frozen=True, eq=False)
class Trace:
    """A file of samples. `samples` is in order of time. If this is only `threads` of a file, `part_of` has
    all of it.
    """

    path: Path
    about: About
    tally: Tally
    samples: pa.Table
    part_of: Trace | None = None
    threads: tuple[str, ...] = ()

    def __repr__(self) -> str:
        part = f", of {', '.join(self.threads)} alone" if self.threads else ""
        return f"<Trace {self.path}: {self.samples.num_rows} records of {shlex.join(self.about.command)!r}{part}>"

    @cached_property
    def calls(self) -> CallTable:
        return calls.pair(self.samples)

    @cached_property
    def flow(self) -> Flow:
        if self.part_of is not None:
            return self.part_of.flow.only(self.threads)  # a call may end on a thread that is not among them
        return flow_build.build(self.samples, self.about, self.tally)

    def only(self, threads: Sequence[str]) -> Trace:
        """The samples of `threads`, each given by its name or tid, and the calls that they entered."""
        chosen = self.samples.filter(_of_threads(self.samples, threads))
        made = replace(self, samples=chosen, part_of=self, threads=tuple(threads))
        table = self.calls.table
        # Calls are not paired anew: a call may end on a thread that is not among them.
        made.__dict__["calls"] = replace(self.calls, table=table.filter(_of_threads(table, threads)))
        return made


def read(path: str | Path) -> Trace:
    """The file at `path`, or the part that a session which did not end left beside it, with `tally.partial` set.

    Raises StoreError: 'no-such-file', 'no-permission', and 'bad-trace' for anything else.
    """
    return table_file.read(Path(path), _WHAT, _MAKER, _accept, _trace)


@dataclass(frozen=True, eq=False)
class TraceParts:
    """A finished file of ``rows`` samples, some columns of which are read a part at a time, in the order of the file,
    which need not be that of time.
    """

    about: About
    tally: Tally
    rows: int
    tables: Iterator[pa.Table]


@contextmanager
def reading_parts(path: Path, rows: int, columns: Sequence[str]) -> Iterator[TraceParts | None]:
    """The file, to be read ``rows`` samples at a time; None if its writer did not finish it. Raises as `read`, also for
    errors in the body of the ``with``.
    """
    with table_file.parts(path, rows, columns, _accept, _WHAT, _MAKER) as found:
        if found is None:
            yield None
            return
        about = About.from_json(unpack(found.notes.get(ABOUT_KEY, b"")))
        tally = Tally.from_json(unpack(found.notes.get(TALLY_KEY, b"")))
        yield TraceParts(about, tally, found.rows, map(_checked, found.tables))


def _trace(stored: Stored) -> Trace:
    about = About.from_json(unpack(stored.first.get(ABOUT_KEY, b"")))
    return Trace(stored.path, about, _tally(stored), _in_order(stored.table))


def _tally(stored: Stored) -> Tally:
    """The tally in the file; an empty one if its writer was stopped before it noted one."""
    if not stored.partial:
        return Tally.from_json(unpack(stored.last.get(TALLY_KEY, b"")))
    noted = stored.last.get(TALLY_KEY)
    return replace(Tally.from_json(unpack(noted)) if noted else Tally(), partial=True)


def _accept(found: pa.Schema) -> None:
    if EVENTS_KEY in (found.metadata or {}):
        raise StoreError(
            "bad-trace",
            "events of a D program, not samples",
            "gilk query FILE SQL reads them, and gilk show --flame draws their stacks",
        )
    expected = schema({0, *(number for name, number in _MARKS.items() if name in found.names)})
    if not found.equals(expected):
        raise StoreError("bad-trace", "its columns are not those of samples")


def _of_threads(table: pa.Table, threads: Sequence[str]) -> pa.Array:
    numbers = [int(name) for name in threads if name.isascii() and name.isdigit() and len(name) < 11]
    tids = pc.is_in(table["tid"].cast(pa.int64()), pa.array(numbers, pa.int64()))
    names = pc.is_in(table["thread"].cast(pa.string()), pa.array(threads, pa.string()))
    return pc.or_(tids, names)


def _in_order(table: pa.Table) -> pa.Table:
    """`table` in order of time."""
    time = np.asarray(_checked(table)["time"])
    if len(time) and (time[1:] < time[:-1]).any():
        return table.take(pa.array(np.argsort(time, kind="stable")))
    return table


def _checked(table: pa.Table) -> pa.Table:
    """The table, if every sample has a time and a thread. Raises StoreError."""
    if any(table[name].null_count for name in ("time", "pid", "tid", "sp")):
        raise StoreError("bad-trace", "samples without a time or a thread")
    return table

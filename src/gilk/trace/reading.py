# SPDX-License-Identifier: LGPL-2.1-or-later
"""Read what `gilk.trace.store` wrote, finished or not; and refuse what it did not write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gilk.errors import StoreError
from gilk.trace import calls, flow_build
from gilk.trace.about import About, Tally, unpack
from gilk.trace.calls import Calls
from gilk.trace.flow import Flow
from gilk.trace.samples import schema
from gilk.trace.store import ABOUT_KEY, TALLY_KEY
from gilk.trace.table_file import partial_path
from gilk.values import dataclass

_PARQUET = b"PAR1"
_STREAM = b"\xff\xff\xff\xff"  # the continuation marker that begins every Arrow IPC message
_MARKS = {"extra": 1, "arg0": 2, "rax": 3}  # a column that tells that records of a class are there


@dataclass(frozen=True, eq=False)
class Trace:
    """A file of samples. `samples` is in order of time. `part_of` has all of it, if this is only `threads` of it."""

    path: Path
    about: About
    tally: Tally
    samples: pa.Table
    part_of: Trace | None = None
    threads: tuple[str, ...] = ()

    @cached_property
    def calls(self) -> Calls:
        return calls.pair(self.samples)

    @cached_property
    def flow(self) -> Flow:
        if self.part_of is not None:
            return self.part_of.flow.only(self.threads)  # a call may end on a thread that was not asked for
        return flow_build.build(self.samples, self.about, self.tally)

    def only(self, threads: Sequence[str]) -> Trace:
        """The samples of `threads`, each a name or a tid, and the calls that they entered."""
        chosen = self.samples.filter(_of_threads(self.samples, threads))
        made = replace(self, samples=chosen, part_of=self, threads=tuple(threads))
        table = self.calls.table
        # Not paired anew: a call may end on a thread that was not asked for.
        made.__dict__["calls"] = replace(self.calls, table=table.filter(_of_threads(table, threads)))
        return made


def read(path: Path) -> Trace:
    """The file at `path`, or what a session that did not end left beside it, with `tally.partial` set.

    Raises StoreError: 'no-such-file', 'no-permission', and 'bad-trace' for anything else.
    """
    try:
        if not path.exists() and partial_path(path).exists():
            path = partial_path(path)
        with path.open("rb") as file:
            start = file.read(4)
        if start == _PARQUET:
            return _read_parquet(path)
        if start == _STREAM:
            return _read_partial(path)
    except FileNotFoundError as error:
        raise StoreError("no-such-file", f"no file {path}") from error
    except PermissionError as error:
        raise StoreError("no-permission", f"{path} may not be read") from error
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
        raise StoreError("bad-trace", f"{path}: damaged, or not a file of samples: {error}") from error
    except StoreError as error:
        raise StoreError("bad-trace", f"{path}: {error.message}", error.hint) from error
    raise StoreError("bad-trace", f"{path}: not a file of samples", "gilk run -o FILE makes one")


def _read_parquet(path: Path) -> Trace:
    with pq.ParquetFile(path) as file:
        metadata = file.schema_arrow.metadata or {}
        about = About.from_json(unpack(metadata.get(ABOUT_KEY, b"")))
        tally = Tally.from_json(unpack(metadata.get(TALLY_KEY, b"")))
        _check_schema(file.schema_arrow)
        table = file.read()
    return Trace(path, about, tally, _checked(table))


def _read_partial(path: Path) -> Trace:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        about = About.from_json(unpack((stream.schema.metadata or {}).get(ABOUT_KEY, b"")))
        _check_schema(stream.schema)
        batches, tally = [], Tally()
        for batch, note in _whole_batches(stream):
            batches.append(batch)
            tally = Tally.from_json(unpack(note)) if note else tally
        table = pa.Table.from_batches(batches, stream.schema)
    return Trace(path, about, replace(tally, partial=True), _checked(table))


def _whole_batches(stream: pa.RecordBatchReader) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    """Up to the end, or to where the writer was stopped."""
    while True:
        try:
            batch, note = stream.read_next_batch_with_custom_metadata()
            batch.validate(full=True)
        except (StopIteration, pa.ArrowException, OSError):
            return
        yield batch, dict(note).get(TALLY_KEY) if note else None


def _of_threads(table: pa.Table, threads: Sequence[str]) -> pa.Array:
    numbers = [int(name) for name in threads if name.isascii() and name.isdigit() and len(name) < 11]
    tids = pc.is_in(table["tid"].cast(pa.int64()), pa.array(numbers, pa.int64()))
    names = pc.is_in(table["thread"].cast(pa.string()), pa.array(threads, pa.string()))
    return pc.or_(tids, names)


def _check_schema(found: pa.Schema) -> None:
    expected = schema({0, *(number for name, number in _MARKS.items() if name in found.names)})
    if not found.equals(expected):
        raise StoreError("bad-trace", "its columns are not those of samples")


def _checked(table: pa.Table) -> pa.Table:
    """`table` proved sound, without notes, and in order of time."""
    table.validate(full=True)
    table = table.replace_schema_metadata(None).unify_dictionaries()
    if any(table[name].null_count for name in ("time", "pid", "tid", "sp")):
        raise StoreError("bad-trace", "samples without a time or a thread")
    time = np.asarray(table["time"])
    if len(time) and (time[1:] < time[:-1]).any():
        return table.take(pa.array(np.argsort(time, kind="stable")))
    return table

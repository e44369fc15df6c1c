# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes one Arrow table, in order of time, of the records of many threads.

Columns: time (ns since the session's start), pid, tid, thread, point, function, kind, sp (its low 32 bits) and value
are always there; extra, arg0 to arg5, a column per register and text are there if the session has probes that write
them. A record has null in columns that it has no value for.

If records of a thread were dropped, there is a row of kind `gap`, with the time of the next record, and in place of sp
the number of dropped records: calls entered before it may have been left in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk, Identity
from gilk.trace.layout import REGISTERS, TEXT_BYTES, Array
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.trace.text import storable

NAME = pa.dictionary(pa.int32(), pa.string())
_KINDS = [str(kind) for kind in RecordKind]
_BY_CLASS = (RecordKind.STAMP, RecordKind.INTEGER, RecordKind.ARGS, RecordKind.REGS)
_VARIABLE = (RecordKind.OTHER, RecordKind.INTEGER, RecordKind.TEXT)
_INTEGER, _ARGS, _REGS = 1, 2, 3
_GAP = 0xFFFFFFFF  # the iid of gap rows, which no probe has
_BEFORE = 8  # the ticks (some ns) by which a gap comes before the record that ends it

ARGUMENTS = tuple(f"arg{n}" for n in range(6))
_FIXED = [("time", pa.int64()), ("pid", pa.int32()), ("tid", pa.int32()), ("thread", NAME), ("point", NAME)]
_FIXED += [("function", NAME), ("kind", NAME), ("sp", pa.uint32()), ("value", pa.int64())]
_OPTIONAL = {
    _INTEGER: [("extra", pa.int64())],
    _ARGS: [(name, pa.uint64()) for name in ARGUMENTS],
    _REGS: [*((name, pa.uint64()) for name in REGISTERS), ("text", pa.string())],
}


def schema(classes: Set[int]) -> pa.Schema:
    """The columns of a session whose probes write records of `classes`."""
    return pa.schema(
        [*_FIXED, *(field for number in sorted(_OPTIONAL.keys() & classes) for field in _OPTIONAL[number])]
    )


class Samples:
    """Turns chunks, as they are drained, into tables.

    To have them in order of time, records are held back until one more poll has passed: by then, all earlier records
    have been committed, except by a thread that was preempted for longer than that while it wrote one. Its records come
    late, out of order; `late` counts them, and a reader sorts.
    """

    def __init__(
        self,
        probes: Sequence[ProbeRow],
        clock: Clock,
        start: int,
        classes: Set[int],
        thread_name: Callable[[int, int], str] = lambda _pid, _tid: "",
    ) -> None:
        """`start` is that of the session, in ns of CLOCK_MONOTONIC. `thread_name(pid, tid)` is called once for each
        thread.

        `probes` may grow until the first record comes.
        """
        self.schema = schema(classes)
        self.unknown = 0  # the number of records whose iid no probe has
        self.gaps = 0  # the number of rows that are not records
        self.late = 0
        self._clock, self._start, self._thread_name = clock, start, thread_name
        self._rows = probes
        self._threads: dict[Identity, int] = {}
        self._names: list[str] = []
        self._held: list[Chunk] = []
        self._watermark = self._emitted = 0

    @cached_property
    def _probes(self) -> _ProbeIndex:
        """The index of probes. It is made with the first record, since probes that only count come and go by the ten
        thousand.
        """
        return _ProbeIndex(self._rows)

    def add(self, chunks: Sequence[Chunk]) -> pa.Table:
        """Take the chunks of a poll; returns the samples whose order is now final, perhaps none."""
        ready: list[Chunk] = []
        held: list[Chunk] = []
        for chunk in [*self._held, *map(_with_gaps, chunks)]:
            early = chunk.records["tsc"] <= np.uint64(self._watermark)
            for target, part in ((ready, early), (held, ~early)):
                if part.any():
                    target.append(Chunk(chunk.identity, chunk.number, chunk.records[part]))
        self._held = held
        newest = max((int(chunk.records["tsc"].max()) for chunk in held), default=0)
        self._watermark = max(self._watermark, newest)
        return self._table(ready)

    def flush(self) -> pa.Table:
        """The samples that are still held back; to be called at the end."""
        held, self._held = self._held, []
        return self._table(held)

    def _table(self, chunks: list[Chunk]) -> pa.Table:
        if not chunks:
            return self.schema.empty_table()
        merged = _Merged(chunks)
        self._count_late(merged.tsc)
        columns: dict[str, Any] = {"time": self._clock.to_ns(merged.tsc) - self._start, "sp": merged.field("sp")}
        columns |= self._thread_columns(merged)
        columns |= self._probe_columns(merged)
        columns |= _payload(merged, set(self.schema.names))
        self._forget_unknown(merged, columns)
        arrays = [_as_arrow(columns[field.name], field.type, len(merged.tsc)) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _count_late(self, tsc: NDArray[np.uint64]) -> None:
        self.late += int(np.searchsorted(tsc, np.uint64(self._emitted)))
        self._emitted = max(self._emitted, int(tsc[-1]))

    def _thread_columns(self, merged: _Merged) -> dict[str, Any]:
        codes = merged.per_chunk([self._thread(chunk.identity) for chunk in merged.chunks])
        return {
            "pid": merged.per_chunk([chunk.identity.pid for chunk in merged.chunks]),
            "tid": merged.per_chunk([chunk.identity.tid for chunk in merged.chunks]),
            "thread": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(self._names, pa.string())),
        }

    def _thread(self, identity: Identity) -> int:
        if identity not in self._threads:
            name = storable(self._thread_name(identity.pid, identity.tid))
            if name not in self._names:
                self._names.append(name)
            self._threads[identity] = self._names.index(name)
        return self._threads[identity]

    def _forget_unknown(self, merged: _Merged, columns: dict[str, Any]) -> None:
        """Take out what records have in place of arguments that their probes do not record."""
        if self._probes.has_unknown and columns.get(ARGUMENTS[0]) is not None:
            known = self._probes.arguments[self._probes.rows(merged.field("iid"))]
            for n, name in enumerate(ARGUMENTS):
                values, missing = columns[name]
                columns[name] = values, missing | (known >> n & 1 == 0)

    def _probe_columns(self, merged: _Merged) -> dict[str, Any]:
        index = self._probes
        iids = merged.field("iid")
        rows = index.rows(iids)
        gaps = iids == _GAP
        self.gaps += int(gaps.sum())
        self.unknown += int((rows == index.nobody).sum()) - int(gaps.sum())
        kinds = index.kinds[merged.per_chunk([chunk.number for chunk in merged.chunks]), rows]
        texts = merged.payload(_REGS, "length")
        if texts is not None:
            kinds = np.where(texts[1] | (texts[0] == 0), kinds, np.int32(_KINDS.index(RecordKind.TEXT)))
        kinds = np.where(gaps, np.int32(_KINDS.index(RecordKind.GAP)), kinds)
        return {
            "point": _named(index.points[rows], index.point_names),
            "function": _named(index.functions[rows], index.function_names),
            "kind": _named(kinds, index.kind_names),
        }


def _with_gaps(chunk: Chunk) -> Chunk:
    """The chunk with its gaps as records among the others."""
    if not chunk.gaps:
        return chunk
    marks = np.zeros(len(chunk.gaps), chunk.records.dtype)
    marks["iid"] = _GAP
    if chunk.missing:
        marks["sp"] = np.minimum(chunk.missing, 0xFFFFFFFF)
    marks["tsc"] = chunk.records["tsc"][list(chunk.gaps)] - np.uint64(_BEFORE)
    return Chunk(chunk.identity, chunk.number, np.insert(chunk.records, chunk.gaps, marks))


class _ProbeIndex:
    """The codes of names by iid. The last row, `nobody`, stands for iids that no probe has; its codes are -1."""

    def __init__(self, probes: Sequence[ProbeRow]) -> None:
        known = sorted({probe.iid: probe for probe in probes if probe.iid}.items())
        rows = [probe for _, probe in known]
        self._iids = np.array([iid for iid, _ in known], np.uint32)
        self.nobody = len(rows)
        self.arguments = np.array([*(probe.arguments for probe in rows), 63], np.int32)
        self.has_unknown = bool((self.arguments != 63).any())
        self.points, self.point_names = _factorise([probe.point for probe in rows])
        self.functions, self.function_names = _factorise([probe.function for probe in rows])
        self.kind_names = pa.array(_KINDS)
        kinds = [[_KINDS.index(_kind(probe, number)) for probe in rows] for number in range(len(_BY_CLASS))]
        fallback = [[_KINDS.index(kind)] for kind in _BY_CLASS]
        self.kinds = np.hstack([np.array(kinds, np.int32).reshape(len(_BY_CLASS), -1), np.array(fallback, np.int32)])

    def rows(self, iids: NDArray[np.uint32]) -> NDArray[np.intp]:
        at = np.searchsorted(self._iids, iids)
        found = np.append(self._iids, 0)[at] == iids
        return np.where(found, at, self.nobody)


def _kind(probe: ProbeRow, number: int) -> str:
    return _BY_CLASS[number] if probe.kind in _VARIABLE else probe.kind


def _factorise(names: list[str]) -> tuple[NDArray[np.int32], pa.Array]:
    names = [storable(name) for name in names]
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([*(codes[name] for name in names), -1], np.int32), pa.array(list(codes), pa.string())


def _named(codes: NDArray[np.int32], names: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), names)


class _Merged:
    """Chunks end to end, and the permutation that puts their records in order of time.

    The sort is stable: records of one thread with the same time stay in the order in which they were written.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks
        self._lengths = [len(chunk.records) for chunk in chunks]
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        tsc = np.concatenate([chunk.records["tsc"] for chunk in chunks])
        self._order = np.argsort(tsc, kind="stable")
        self.tsc: NDArray[np.uint64] = tsc[self._order]

    def field(self, name: str) -> Array:
        """A field that every record has."""
        return np.concatenate([chunk.records[name] for chunk in self.chunks])[self._order]

    def per_chunk(self, values: list[int]) -> NDArray[np.int32]:
        """The value of each record's chunk. pid and tid have 32 bits, whatever the target wrote there."""
        every = np.array(values, np.int64).astype(np.uint32).view(np.int32)
        return np.repeat(every, self._lengths)[self._order]

    def payload(self, number: int, name: str) -> tuple[Array, NDArray[np.bool_]] | None:
        """A field that only records of class `number` have, and a mask of the other records; None if there are no such
        records.
        """
        mine = [i for i, chunk in enumerate(self.chunks) if chunk.number == number]
        if not mine:
            return None
        sample = self.chunks[mine[0]].records[name]
        values = np.zeros((self._starts[-1], *sample.shape[1:]), sample.dtype)
        missing = np.ones(len(values), np.bool_)
        for i in mine:
            values[self._starts[i] : self._starts[i + 1]] = self.chunks[i].records[name]
            missing[self._starts[i] : self._starts[i + 1]] = self.chunks[i].records["iid"] == _GAP
        return values[self._order], missing[self._order]


def _payload(merged: _Merged, wanted: Set[str]) -> dict[str, Any]:
    columns: dict[str, Any] = dict.fromkeys(wanted & {"value", "extra", "text", *ARGUMENTS, *REGISTERS})
    for name in ("value", "extra"):
        found = merged.payload(_INTEGER, name)
        columns[name] = found and (found[0].view(np.int64), found[1])
    found = merged.payload(_ARGS, "arg")
    if found is not None:
        columns |= {name: (found[0][:, n], found[1]) for n, name in enumerate(ARGUMENTS)}
    length = merged.payload(_REGS, "length")
    if length is not None:
        columns |= _registers_or_text(merged, *length)
    return columns


def _registers_or_text(merged: _Merged, length: Array, missing: NDArray[np.bool_]) -> dict[str, Any]:
    registers, text = merged.payload(_REGS, "reg"), merged.payload(_REGS, "text")
    assert registers is not None and text is not None
    without = missing | (length != 0)
    columns: dict[str, Any] = {name: (registers[0][:, n], without) for n, name in enumerate(REGISTERS)}
    strings: list[str | None] = [None] * len(length)
    for row in np.flatnonzero(~missing & (length != 0)).tolist():
        strings[row] = text[0][row, : min(int(length[row]), TEXT_BYTES)].tobytes().decode(errors="replace")
    return columns | {"text": strings}


def _as_arrow(column: Any, kind: pa.DataType, length: int) -> pa.Array:
    """An Arrow array of `column`: an array, an array with a mask of nulls, a list, or None for a column of nulls."""
    if column is None:
        return pa.nulls(length, kind)
    if isinstance(column, pa.Array):
        return column
    if isinstance(column, tuple):
        return pa.array(np.ascontiguousarray(column[0]), kind, mask=column[1])
    return pa.array(column, kind)

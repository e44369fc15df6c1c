# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout of a run's file: its columns and its list of probes, known before the first probe is in."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from gilk.errors import StoreError
from gilk.runs.clause_request import ClauseRequest, builtin
from gilk.session.request import Builtin, CFunction, Request, Wanted, place_of
from gilk.session.stream import ALL_CLASSES
from gilk.trace.about import About
from gilk.trace.clock import Clock, realtime_offset
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.trace.samples import schema
from gilk.trace.store import Writer

_BEYOND_STAMPS = {
    RecordKind.ARGS: {2},
    RecordKind.REGS: {3},
    RecordKind.OTHER: ALL_CLASSES,
}  # the record classes that these kinds have besides stamps (native/abi/gilk_abi.h)
_KINDS = {Builtin.TIME: ("time-entry", "time-head", "time-return")}


def schema_of(kinds: Iterable[str]) -> pa.Schema:
    """The columns of samples of probes of these kinds."""
    return schema({0}.union(*(_BEYOND_STAMPS.get(RecordKind(kind), ()) for kind in set(kinds))))


def kinds_of(requests: Iterable[Request], clauses: Iterable[ClauseRequest]) -> list[str]:
    """The kinds of probes that requests may make."""
    plain = [kind for request in requests for kind in _kinds(request.instrument)]
    return plain + [kind for one in clauses for kind in _kinds(builtin(one.instrument))]


def _kinds(instrument: Builtin | CFunction) -> Iterable[str]:
    if isinstance(instrument, Builtin):
        return _KINDS.get(instrument, (str(instrument),))
    return ("other",)


def padded(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """The table with the columns of all instruments, also of those in other targets and of those not put in yet."""
    if table.schema == columns:
        return table
    return pa.concat_tables([columns.empty_table(), table], promote_options="default").select(columns.names)


def writer(
    path: Path, columns: pa.Schema, command: tuple[str, ...], pids: tuple[int, ...], start: int, clock: Clock,
    wanted: list[list[Wanted]],
) -> Writer:  # fmt: skip
    """The writer of the run's file. ``wanted``: the probes of each session, in the order in which they are put in.
    Raises StoreError."""
    rows = tuple(_row(number, each) for of_one in wanted for number, each in enumerate(of_one))
    about = About(socket.gethostname(), command, pids, start, realtime_offset(), clock, rows)
    try:
        return Writer(path, columns, about)
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def _row(number: int, wanted: Wanted) -> ProbeRow:
    """The row that the session will make for a probe; probes are numbered in the order in which they are put in."""
    counts = wanted.kind == RecordKind.COUNT
    point = wanted.point
    return ProbeRow(
        0 if counts else number + 1, point.label, point.function, point.image, wanted.kind, number if counts else -1,
        address=place_of(wanted),
    )  # fmt: skip

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers questions in SQL about tables, with DuckDB.

The tables of a file of samples are `samples`, `calls`, `counts` (point, count) and `probes`. A query can reach nothing
else: no files, no network, no extensions, and no more memory than half of the machine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb
import pyarrow as pa

from gilk.errors import UsageError
from gilk.trace.probes import to_json
from gilk.trace.reading import Trace

#: The table that is made of the samples.
CALLS: Final = "calls"
#: Words by which a question is about tables, or computes their names.
_ABOUT_TABLES: Final = re.compile(
    r"\b(show|describe|desc|summarize|pragma|information_schema|query|query_table|duckdb_\w+|sqlite_\w+|pg_\w+)\b", re.I
)
_COUNTS = pa.schema([("point", pa.string()), ("count", pa.int64())])
_PROBES = pa.schema(
    [
        *(("iid", pa.int64()), ("point", pa.string()), ("function", pa.string())),
        *(("image", pa.string()), ("kind", pa.string()), ("counter", pa.int64()), ("refused", pa.string())),
    ]
)


class SampleTables(Mapping[str, pa.Table]):
    """The tables of a file of samples, by their names. The calls are made of the samples when they are first asked for,
    which takes longer than all else.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        counts = [{"point": point, "count": count} for point, count in trace.tally.counts.items()]
        refused = trace.tally.refused
        probes = [{**row, "refused": refused.get(row["point"])} for row in to_json(trace.about.probes)]
        self._small = {
            "counts": pa.Table.from_pylist(counts, _COUNTS), "probes": pa.Table.from_pylist(probes, _PROBES)
        }  # fmt: skip

    def __getitem__(self, name: str) -> pa.Table:
        if name == "samples":
            return self._trace.samples
        return self._trace.calls.table if name == CALLS else self._small[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("samples", CALLS, *self._small))

    def __len__(self) -> int:
        return 2 + len(self._small)

    @property
    def calls_are_made(self) -> bool:
        return "calls" in self._trace.__dict__


def tables(trace: Trace) -> SampleTables:
    return SampleTables(trace)


def mentioned(tables: Mapping[str, pa.Table], sql: str) -> list[str]:
    """The names of the tables that a question needs: those that it names; all, if it is about tables."""
    if _ABOUT_TABLES.search(sql):
        return list(tables)
    return [name for name in tables if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]


def ask(tables: Mapping[str, pa.Table], sql: str, most: int | None = None) -> pa.Table:
    """The answer of the last statement of `sql`. ``tables``: the tables that it may name; ``most``: the most rows of
    the answer.

    Raises UsageError `bad-query`, with DuckDB's own words.
    """
    with duckdb.connect(":memory:", config=_confined()) as connection:
        try:
            for name in mentioned(tables, sql):
                connection.register(name, tables[name])
            connection.execute("SET lock_configuration = true")
            answer = connection.sql(sql)
            if answer is None:  # a statement without an answer, or none at all
                raise duckdb.Error("nothing was asked")
            return (answer if most is None else answer.limit(most)).to_arrow_table()
        except (duckdb.Error, pa.ArrowException) as error:
            names = ", ".join(tables)
            raise UsageError("bad-query", _its_words(error), f"the tables are {names}") from error


def _its_words(error: Exception) -> str:
    """DuckDB's message, without its suggestion of one of its internal tables."""
    lines = str(error).strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith('Did you mean "pg_'))


def _confined() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": f"{memory // (1 << 20)}MiB",
        "temp_directory": "",
    }

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers questions in SQL about tables, with DuckDB.

The tables of a file of samples are `samples`, `calls`, `counts` (point, count) and `probes`. A query can reach nothing
else: no files, no network, no extensions, and no more memory than half of the machine's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from gilk.errors import UsageError
from gilk.trace.probes import to_json
from gilk.trace.reading import Trace

_COUNTS = pa.schema([("point", pa.string()), ("count", pa.int64())])
_PROBES = pa.schema(
    [
        *(("iid", pa.int64()), ("point", pa.string()), ("function", pa.string())),
        *(("image", pa.string()), ("kind", pa.string()), ("counter", pa.int64()), ("refused", pa.string())),
    ]
)


def tables(trace: Trace) -> dict[str, pa.Table]:
    """The tables of a file of samples, by their names."""
    counts = [{"point": point, "count": count} for point, count in trace.tally.counts.items()]
    refused = trace.tally.refused
    probes = [{**row, "refused": refused.get(row["point"])} for row in to_json(trace.about.probes)]
    return {
        "samples": trace.samples,
        "calls": trace.calls.table,
        "counts": pa.Table.from_pylist(counts, _COUNTS),
        "probes": pa.Table.from_pylist(probes, _PROBES),
    }


def ask(tables: Mapping[str, pa.Table], sql: str, most: int | None = None) -> pa.Table:
    """The answer of the last statement of `sql`. ``tables``: the tables that it may name; ``most``: the most rows of
    the answer.

    Raises UsageError `bad-query`, with DuckDB's own words.
    """
    with duckdb.connect(":memory:", config=_confined()) as connection:
        try:
            for name, table in tables.items():
                connection.register(name, table)
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

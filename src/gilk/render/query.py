# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers to questions in SQL about a file, as JSON and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from gilk.render.d import event_file
from gilk.render.text import table
from gilk.trace import query
from gilk.trace.calls import SCHEMA as CALL_SCHEMA
from gilk.trace.reading import read

Json = dict[str, Any]


def tables(path: Path) -> Mapping[str, pa.Table]:
    """The tables that a question about the file may name: samples and so on, or the events of a D program. Raises
    StoreError.
    """
    return event_file.read(path) if event_file.is_one(path) else query.tables(read(path))


def described(tables: Mapping[str, pa.Table]) -> list[Json]:
    """The name, the columns and the number of rows of each table; None for the rows of one that has not been made."""
    return [_described(tables, name) for name in tables]


def _described(tables: Mapping[str, pa.Table], name: str) -> Json:
    if isinstance(tables, query.SampleTables) and name == query.CALLS and not tables.calls_are_made:
        return {"name": name, "columns": CALL_SCHEMA.names, "rows": None}
    return {"name": name, "columns": tables[name].column_names, "rows": tables[name].num_rows}


def prepare(tables: Mapping[str, pa.Table], sql: str) -> None:
    """Make the tables that a question needs."""
    for name in query.mentioned(tables, sql):
        _ = tables[name]


def answer(tables: Mapping[str, pa.Table], sql: str, most: int | None = None) -> Json:
    """The answer as {"columns": [...], "rows": [[...], ...]}: rows are lists, since two columns may have one name.
    ``most`` is the most rows, None for all. Raises UsageError.
    """
    found = query.ask(tables, sql, most)
    columns = [[_plain(value) for value in column.to_pylist()] for column in found.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"columns": found.column_names, "rows": rows}


def answer_text(found: Json, terminal: bool | None = None) -> str:
    rows = [[json.dumps(each) if isinstance(each, list | dict) else each for each in row] for row in found["rows"]]
    return table(found["columns"], rows, terminal)


def _plain(value: Any) -> Any:
    """The value as a JSON value. DuckDB also has decimals (for sums), dates, and blobs, which become hexadecimal
    digits.

    Members of a struct that are null are left out.
    """
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)

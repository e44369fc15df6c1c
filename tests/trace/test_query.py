# SPDX-License-Identifier: LGPL-2.1-or-later
"""Queries see the four tables, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gilk.errors import UsageError
from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow
from gilk.trace.query import ask, tables
from gilk.trace.reading import Trace
from gilk.trace.samples import schema

PROBES = (ProbeRow(1, "f:entry", "f", "prog", "time-entry"), ProbeRow(2, "f:return", "f", "prog", "time-return"))


@pytest.fixture
def trace() -> Trace:
    about = About("box", (), (1,), 0, 0, Clock(0, 0, 1.0), PROBES)
    common = {"pid": 1, "tid": 2, "thread": "main", "function": "f", "sp": 64}
    rows = [
        {"time": time, "point": point, "kind": kind, **common}
        for time, point, kind in [(5, "f:entry", "time-entry"), (9, "f:return", "time-return")]
    ]
    return Trace(Path("x"), about, Tally({"f:entry": 1}), pa.Table.from_pylist(rows, schema({0})))


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT count(*) n FROM samples WHERE point = 'f:entry'", [{"n": 1}]),
        (
            "SELECT function, start, duration, depth FROM calls",
            [{"function": "f", "start": 5, "duration": 4, "depth": 0}],
        ),
        ("SELECT * FROM counts", [{"point": "f:entry", "count": 1}]),
        ("SELECT point FROM probes WHERE iid = 2", [{"point": "f:return"}]),
        ("SELECT p.image FROM samples s JOIN probes p USING (point) WHERE s.time = 9", [{"image": "prog"}]),
    ],
)
def test_queries_see_the_tables_of_the_trace(trace: Trace, sql: str, answer: list[dict[str, object]]) -> None:
    assert ask(tables(trace), sql).to_pylist() == answer


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY samples TO '{tmp}/out.csv'",
        "ATTACH '{tmp}/out.db'",
        "INSTALL httpfs",
        "LOAD '/etc/passwd'",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SELECT * FROM nothing",
        "SELEC",
        "",
    ],
)
def test_statements_other_than_queries_of_the_tables_are_refused(trace: Trace, sql: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ask(tables(trace), sql.format(tmp=tmp_path))
    assert caught.value.slug == "bad-query"
    assert "pg_" not in caught.value.message  # a table of DuckDB's own is no help
    assert "samples" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_queries_cannot_read_python_variables(trace: Trace) -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(UsageError):
        ask(tables(trace), "SELECT * FROM secret")
    assert secret.num_rows == 1


@pytest.mark.parametrize(
    ("sql", "rows"),
    [("SHOW TABLES", 4), ("DESCRIBE calls", 7), ("SELECT * FROM information_schema.tables", 4), ('FROM "CALLS"', 1),
     ("FROM query_table(['ca' || 'lls'])", 1),
     ("FROM query('from ca' || 'lls')", 1), ("SUMMARIZE calls", 7)],
)  # fmt: skip
def test_tables_are_there_by_whatever_name(trace: Trace, sql: str, rows: int) -> None:
    assert ask(tables(trace), sql).num_rows == rows


def test_calls_are_made_only_for_questions_about_them(trace: Trace) -> None:
    found = tables(trace)
    assert ask(found, "SELECT count(*) FROM samples, counts, probes").num_rows == 1 and not found.calls_are_made
    assert ask(found, "SELECT max(duration) FROM Calls").num_rows == 1 and found.calls_are_made

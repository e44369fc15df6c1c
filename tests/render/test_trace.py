# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk show`` and ``gilk query`` on a file with two threads and three calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from gilk.cli.main import main
from gilk.cli.query import query
from gilk.cli.show import show
from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow
from gilk.trace.samples import schema
from gilk.trace.store import Writer
from gilk.trace.table_file import partial_path

PROBES = (
    ProbeRow(1, "f:entry", "f", "prog", "time-entry"),
    ProbeRow(2, "f:return", "f", "prog", "time-return"),
    ProbeRow(0, "g:entry", "g", "prog", "count", 0),
)
ABOUT = About("box", ("prog", "a b"), (100,), 500_000_000, 1_600_000_000 * 10**9, Clock(1, 2, 2.9), PROBES)
TALLY = Tally({"g:entry": 42}, drops=7, duration=2_500_000_000, partial=False, report={"notes": ["a note"]})
EVENTS = [(10, 1, "entry"), (20, 2, "entry"), (30, 2, "return"), (1010, 1, "return"), (1500, 2, "entry")]


def sample(time: int, tid: int, side: str) -> dict[str, Any]:
    names = {"point": f"f:{side}", "function": "f", "kind": f"time-{side}", "thread": ["main", "worker"][tid - 1]}
    return {"time": time, "pid": 100, "tid": tid, "sp": tid * 64, **names}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "a.parquet", schema({0}), ABOUT)
    writer.write(pa.Table.from_pylist([sample(*event) for event in EVENTS], schema({0})))
    return writer.close(TALLY)


def run(command: Any, *arguments: object) -> str:
    result = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_show_describes_the_contents_of_a_file(file: Path) -> None:
    text = run(show, file)
    for words in (
        "prog 'a b' on box, 2020-09-13T12:26:40+00:00, 2.5s",
        "5 records of 2 threads, 3 probes",
        "   42  g:entry",
        "f: 2 calls; least 10ns, median 10ns",
        "calls without a duration: 1 still under way at the end",
        "7 records dropped",
        "note: a note",
        "1010  100    1  main    f:return  f         time-return",
    ):
        assert words in text, f"{words}\n{text}"
    assert "value" not in text, "a column without values"


def test_show_prints_the_requested_number_of_samples(file: Path) -> None:
    assert "and 3 records more" in run(show, file, "--limit", 2)
    assert len(json.loads(run(show, file, "--json", "--limit", 2))["samples"]) == 2
    assert json.loads(run(show, file, "--json", "--limit", 0))["samples"] == []


def test_json_of_show(file: Path) -> None:
    made = json.loads(run(show, file, "--json"))
    assert made["counts"] == {"g:entry": 42}
    assert (made["records"], made["drops"], made["partial"]) == (5, 7, False)
    assert made["calls"] == {"paired": 2, "abandoned": 0, "open": 1, "orphans": 0, "cut": 0}
    assert made["latency"]["f"]["most"] == 1000
    assert made["samples"][0] == sample(*EVENTS[0])


@pytest.mark.parametrize(
    ("thread", "records", "calls"), [("worker", 3, 1), ("1", 2, 1), ("nobody", 0, 0), ("9" * 30, 0, 0)]
)
def test_show_of_one_thread(file: Path, thread: str, records: int, calls: int) -> None:
    made = json.loads(run(show, file, "--json", "--thread", thread))
    assert (made["records"], made["calls"]["paired"]) == (records, calls)


def test_show_reads_the_file_of_a_killed_run(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "b.parquet", schema({0}), ABOUT)
    writer.write(pa.Table.from_pylist([sample(*event) for event in EVENTS], schema({0})))
    for name in (writer.path, partial_path(writer.path)):
        assert "did not end in order" in run(show, name)
        assert json.loads(run(show, name, "--json"))["records"] == 5


def test_query_answers_as_a_table_and_as_json(file: Path) -> None:
    sql = "SELECT thread, duration FROM calls ORDER BY start"
    assert run(query, file, sql) == "thread  duration\nmain        1000\nworker        10\n"
    assert json.loads(run(query, file, sql, "--json")) == {
        "columns": ["thread", "duration"],
        "rows": [["main", 1000], ["worker", 10]],
    }


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum(duration)", 1010),
        ("1.5::DECIMAL(4,2)", 1.5),
        ("DATE '2020-01-02'", "2020-01-02"),
        ("'nan'::DOUBLE", "nan"),
        ("true", True),
        ("NULL", None),
    ],
)
def test_query_values_are_json(file: Path, expression: str, value: object) -> None:
    found = json.loads(run(query, file, f"SELECT {expression} a, 2 a FROM calls LIMIT 1", "--json"))
    assert found == {"columns": found["columns"], "rows": [[value, 2]]}


@pytest.mark.parametrize(
    ("arguments", "status", "slug"),
    [
        (["show", "{file}.not"], 6, "no-such-file"),
        (["show", __file__], 6, "bad-trace"),
        (["query", "{file}", "SELECT * FROM nothing"], 2, "bad-query"),
        (["show", "{file}", "--limit", "-1"], 2, "usage"),
    ],
)
def test_errors_of_show_and_query_have_slugs(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, slug: str
) -> None:
    assert main([*(argument.format(file=file) for argument in arguments), "--json"]) == status
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["error"]["slug"] == slug

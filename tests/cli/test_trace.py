# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk trace``: its output and exit status. tests/trace_oracle tests whether traces are right."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gilk.trace.reading import read
from tests.behaviour.harness import Loop, run_gilk
from tests.programs.build import build
from tests.programs.opener import opener
from tests.trace_oracle.paced import alpha, program

Environment = dict[str, str]


def run(environment: Environment, where: Path, *words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_gilk("trace", *map(str, words), cwd=where, env=environment, input=stdin.encode(), timeout=250)


def test_a_launched_program_keeps_its_output_and_status(gilk_on_path: Environment, tmp_path: Path) -> None:
    words = ("--start", "call:alpha:2", "--stop", "return:repeat", "--scope", "paced:", "--", program())
    done = run(gilk_on_path, tmp_path, *words, stdin="a 3\nx 7\n")
    assert (done.returncode, done.stdout) == (7, "ready\ndone\n")
    assert "from call:alpha:2 to return:repeat: " in done.stderr
    assert "10 calls in 1 thread" in done.stderr or "11 calls in 1 thread" in done.stderr
    assert "records in trace.parquet" in done.stderr
    trace = read(tmp_path / "trace.parquet")
    rows = trace.flow.table.to_pylist()
    assert [row["function"] for row in rows if row["state"] == "whole"] == alpha(2)
    assert trace.tally.trace is not None
    assert (trace.tally.trace.start_event, trace.tally.trace.stop_event) == ("call:alpha:2", "return:repeat")


def test_json_of_a_trace_has_the_documented_members(gilk_on_path: Environment, tmp_path: Path) -> None:
    done = run(gilk_on_path, tmp_path, "--json", "--scope", "paced:", "--", program(), stdin="a 2\n")
    report = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0
    assert report["restored"] is True
    assert report["file"] == "trace.parquet"
    assert report["trace"]["calls"] == sum(report["trace"]["states"].values())
    assert report["trace"]["functions"] > 5
    assert report["trace"]["start_event"] == "now"


def test_skipped_functions_are_not_in_the_trace(gilk_on_path: Environment, tmp_path: Path) -> None:
    words = ("-q", "--scope", "paced:", "--skip", "*:leaf", "-o", "t.parquet", "--", program())
    done = run(gilk_on_path, tmp_path, *words, stdin="a 2\n")
    assert (done.returncode, done.stderr) == (0, "")
    names = {row["function"] for row in read(tmp_path / "t.parquet").flow.table.to_pylist()}
    assert "beta" in names
    assert "leaf" not in names


def test_functions_called_too_often_are_left_out(gilk_on_path: Environment, tmp_path: Path) -> None:
    done = run(gilk_on_path, tmp_path, "--json", "--scope", "paced:", "--", program(), stdin="a 6000000\n")
    report = json.loads(done.stdout.splitlines()[-1])
    assert "leaf" in {each["function"] for each in report["trace"]["omitted"]}
    assert report["trace"]["calls"] < 30_000_000 / 2
    assert report["restored"] is True


def test_a_scope_may_name_a_library_that_is_opened_later(gilk_on_path: Environment, tmp_path: Path) -> None:
    """The library's constructors are in the trace, too; a scope that nothing ever matches is refused at the end."""
    opens, plugin = opener(tmp_path)
    done = run(gilk_on_path, tmp_path, "--scope", "plugin*:", "--", opens, plugin, stdin="x")
    assert done.returncode == 0, done.stderr
    calls = Counter(row["function"] for row in read(tmp_path / "trace.parquet").flow.table.to_pylist())
    assert (calls["plugin_hot"], calls["on_load"]) == (1, 1)
    done = run(gilk_on_path, tmp_path, "--scope", "plugin*:", "-o", "none.parquet", "--", opens, plugin)
    assert (done.returncode, "(nothing-to-follow)" in done.stderr) == (2, True), done.stderr
    assert not list(tmp_path.glob("none*"))


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ((), "no-target"),
        (("--start", "soon", "--", "true"), "bad-event"),
        (("--scope", ":x", "--", "true"), "bad-scope"),
        (("-c", "true", "--", "true"), "two-commands"),
        (("-c", "true", "-c", "false"), "two-commands"),
        (("--scope", "no_such:", "--", "true"), "nothing-to-follow"),
        (("--start", "call:no_such_function", "--scope", "true:", "--", "true"), "no-such-function"),
    ],
)
def test_bad_options_of_trace_are_refused(
    words: tuple[str, ...], slug: str, gilk_on_path: Environment, tmp_path: Path
) -> None:
    done = run(gilk_on_path, tmp_path, "--json", *words)
    assert json.loads(done.stdout.splitlines()[-1])["error"]["slug"] == slug
    assert done.returncode in (2, 3, 4)
    assert not (tmp_path / "trace.parquet").exists()


def test_functions_reported_as_left_out_are_not_in_the_trace(tmp_path: Path) -> None:
    """The note is made neither about a function that an event waits for, nor about one left out after the end."""
    with Loop([build("dense", "O0")]) as loop:
        events = ("--start", "call:count:3", "--stop", "return:count:40")
        done = run_gilk("trace", "-q", "--scope", "dense:", *events, "-o", tmp_path / "t.parquet", "-p", loop.pid)
        assert done.returncode == 0, done.stderr
    flow = read(tmp_path / "t.parquet").flow
    from_the_start = {each.function for each in flow.omitted if each.from_ns == flow.start_ns}
    assert from_the_start.isdisjoint(flow.table["function"].to_pylist())
    assert all(each.from_ns < flow.stop_ns for each in flow.omitted)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk show`` on traces: of simulated machines, of a real program, of a client that was killed, and of files with
false contents."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from gilk.cli.anomalies import anomalies
from gilk.cli.diff import diff
from gilk.cli.export import export
from gilk.cli.main import main
from gilk.cli.show import show
from gilk.trace.about import Tally
from gilk.trace.samples import schema
from gilk.trace.store import Writer
from gilk.trace.table_file import partial_path
from gilk.trace.traced import NEVER, Omitted, TraceDescription
from tests.behaviour.harness import run_gilk
from tests.trace.machine import about, nested, samples, write

RECORDS = nested(
    (
        "main",
        1000,
        *(("work", 100, ("k:sys", 50)) for _ in range(4)),
        ("~jump", 10),
        ("evil\x1b[2J<b>", 10),
        ("!hang", 5),
    )
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    omitted = (Omitted("tiny", "prog", 700, 99), Omitted("early", "prog", 0, 0))
    tally = Tally(partial=False, drops=5, trace=TraceDescription(0, 10_000, "call:main", "after:10us", "prog", omitted))
    return write(tmp_path / "a.parquet", RECORDS, tally)


def run(command: Any, *arguments: object) -> str:
    result = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_a_trace_is_shown_by_function_and_says_what_is_missing(file: Path) -> None:
    text = run(show, file)
    for words in (
        "12 calls in 1 thread, 10us: from call:main to after:10us; only prog",
        "2 still under way at the stop, 1 left by a jump",
        "left out from 700ns on: prog:tiny, short and hot, after 99 calls",
        "left out from 0ns on: prog:early, short and hot, from the beginning, for its calls before that",
        "5 records dropped",
    ):
        assert words in text
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["4", "600ns", "400ns", "150ns", "150ns", "150ns", "work", "prog"] in rows


def test_json_has_the_trace_and_its_functions(file: Path) -> None:
    found = json.loads(run(show, file, "--json"))
    assert found["trace"]["stop_event"] == "after:10us"
    rows = {row["function"]: row for row in found["functions"]}
    assert rows["sys"] == {
        **{"function": "sys", "image": "kernel", "lane": "kernel", "calls": 4, "total": 200, "self": 200},
        **{"least": 50, "median": 50, "most": 50, "partial": 0},
    }
    assert rows["hang"]["median"] is None


def test_the_call_tree_has_times_and_counts(file: Path) -> None:
    lines = run(show, file, "--tree").splitlines()
    assert lines[0] == "t1 (1)"
    assert lines[2].endswith(" 1  main (1 open)")
    assert lines[3].split() == ["600ns", "400ns", "4", "work"]
    assert lines[4].split() == ["200ns", "200ns", "4", "sys_[k]"]
    assert lines[-1].endswith("hang (1 open)")
    assert len(run(show, file, "--tree", "--depth", 1).splitlines()) == 3
    assert "jump" not in run(show, file, "--tree", "--min-time", "100ns")
    assert run(show, file, "--tree", "--limit", 2).splitlines()[-1] == "and 4 lines more"
    tree = json.loads(run(show, file, "--tree", "--json"))["tree"]
    assert tree[0]["calls"][0]["children"][0]["children"][0]["function"] == "sys"


def test_flame_graph_is_xml_whose_bars_are_as_wide_as_their_times(file: Path) -> None:
    target = file.with_suffix(".svg")
    assert run(show, file, "--flame", target).strip() == str(target)
    root = ET.parse(target).getroot()
    space = "{http://www.w3.org/2000/svg}"
    bars = {
        bar.attrib["data-n"]: (float(bar.attrib["data-w"]), int(bar.attrib["data-d"])) for bar in root.iter(f"{space}g")
    }
    everything, depth = bars["all, 10us"]
    assert depth == 0
    assert bars["work"] == (pytest.approx(everything * 600 / 10_000, abs=0.01), 2)
    assert bars["sys_[k]"] == (pytest.approx(everything * 200 / 10_000, abs=0.01), 3)
    assert "evil\\x1b[2J<b>" in bars
    assert {element.tag.removeprefix(space) for element in root.iter()} == {
        "svg",
        "style",
        "rect",
        "text",
        "g",
        "title",
        "script",
    }


def test_files_of_killed_clients_can_be_read_by_all_commands(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    writer = Writer(path, schema({0}), about(["main", "work", "jump", "hang"], ("sys",)))
    nothing = pa.nulls(len(RECORDS), pa.int64())
    writer.write(samples(RECORDS).append_column("value", nothing).select(schema({0}).names).cast(schema({0})))
    writer.checkpoint(Tally(trace=TraceDescription(0, NEVER, "now", "exit")))
    writer.abandon()
    assert partial_path(path).exists()
    text = run(show, path)
    assert "did not end in order" in text
    assert "to exit, which has not come" in text
    run(show, path, "--html", tmp_path / "a.html")
    run(show, path, "--tree", "--table", "--flame", tmp_path / "a.svg")
    for form in ("perfetto", "chrome", "folded", "csv"):
        assert (json.loads(run(export, path, "--to", form, "--json")))["calls"] == 12
    run(anomalies, path)
    assert "the same calls" in run(diff, path, path)


def test_files_without_a_trace_are_shown_as_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", RECORDS, Tally(partial=False))
    text = run(show, path)
    assert "work: 4 calls; least 150ns" in text
    assert "records more" in text
    assert "trace" not in json.loads(run(show, path, "--json"))


@pytest.mark.parametrize("option", ["--html", "--flame"])
def test_cannot_write_names_the_file(file: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(file), option, "/nowhere/at/all.x"]) == 6
    assert "cannot-write" in capsys.readouterr().err


def test_a_bad_time_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(file), "--tree", "--min-time", "soon"]) == 2
    assert "'soon' is not a time" in capsys.readouterr().err


PROGRAM = """
#include <setjmp.h>
static jmp_buf back;
__attribute__((noinline)) int leaf(int n) { return n + 1; }
__attribute__((noinline)) int odd(int n);
__attribute__((noinline)) int even(int n) { return n ? odd(n - 1) : leaf(n); }
__attribute__((noinline)) int odd(int n) { return n ? even(n - 1) : leaf(n); }
__attribute__((noinline)) void out(int n) { if (n % 3 == 0) longjmp(back, 1); leaf(n); }
int main(void)
{
	for (volatile int n = 0; n < 30; n++) {
		even(n);
		if (!setjmp(back))
			out(n);
	}
	return 0;
}
"""


def test_functions_of_a_real_program_are_called_as_often_as_gcov_counts(
    tmp_path: Path, gilk_on_path: dict[str, str]
) -> None:
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "--coverage", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    wanted = [option for name in ("leaf", "odd", "even", "out", "main") for option in ("-i", f"{name}:entry=time")]
    done = run_gilk("run", "-q", *wanted, "-o", "a.parquet", "--", "./p", cwd=tmp_path, env=gilk_on_path)
    assert done.returncode == 0, done.stderr
    data = next(tmp_path.glob("*.gcda")).name
    told = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=tmp_path, check=True, capture_output=True)
    functions = json.loads(told.stdout)["files"][0]["functions"]
    counted = {f["name"]: f["execution_count"] for f in functions} | {"main": 1}  # gcov counts each return of setjmp
    found = json.loads(run(show, tmp_path / "a.parquet", "--table", "--json"))["functions"]
    assert {row["function"]: row["calls"] for row in found} == counted
    assert {row["function"]: row["partial"] for row in found if row["partial"]} == {"out": 10}


def test_names_that_are_no_unicode_are_shown_escaped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A command line consists of bytes, and a file may have any text about its probes."""
    told = about(["main"], ())
    lies = tuple(replace(probe, image="\ud800x") for probe in told.probes)
    writer = Writer(tmp_path / "a.parquet", schema({0}), replace(told, command=("\udcff",), probes=lies))
    rows = samples(nested(("main", 10)))
    writer.write(rows.append_column("value", pa.nulls(2, pa.int64())).select(schema({0}).names).cast(schema({0})))
    file = str(writer.close(Tally(partial=False, trace=TraceDescription(0, 10))))
    svg = str(tmp_path / "a.svg")
    for line in (["show"], ["show", "--html", "--flame", svg], ["show", "--json"], ["anomalies"], ["diff", file]):
        assert main([line[0], file, *line[1:]]) == 0, line
    for form in ("perfetto", "chrome", "folded", "csv"):
        assert main(["export", file, "--to", form]) == 0
    assert capfd.readouterr().err == ""
    ET.parse(svg)

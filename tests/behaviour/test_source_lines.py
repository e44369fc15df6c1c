# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points at lines of the source: the counts are those of gcov."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gilk as package
from tests.behaviour.harness import run_gilk, wait_for

Environment = dict[str, str]
SOURCE = """\
#include <stdio.h>

int collatz(long n) {
    int steps = 0;
    while (n != 1) {
        if (n % 2)
            n = 3 * n + 1;
        else
            n /= 2;
        steps++;
    }
    return steps;
}
int main(void) {
    int most = 0;
    for (int n = 1; n < 30; n++) {
        int steps = collatz(n);
        if (steps > most)
            most = steps;
    }
    printf("%d\\n", most);
    return 0;
}
"""
BRACES = {13, 23}  # these end functions; gcov leaves them out
STATEMENTS = (4, 7, 9, 10, 12, 15, 17, 19, 21)


@pytest.fixture
def gilk(gilk_on_path: Environment, tmp_path: Path) -> Any:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_gilk(*arguments, env=gilk_on_path, cwd=tmp_path)

    return run


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "collatz.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O0", "collatz.c", "-o", "collatz"], cwd=tmp_path, check=True)
    return str(tmp_path / "collatz")


def told_by_gcov(place: Path) -> dict[int, int]:
    subprocess.run(["gcc", "--coverage", "-O0", "collatz.c", "-o", "covered"], cwd=place, check=True)
    subprocess.run([place / "covered"], cwd=place, check=True, capture_output=True)
    subprocess.run(["gcov", *(each.name for each in place.glob("*.gcda"))], cwd=place, check=True, capture_output=True)
    rows = (line.split(":", 2) for line in (place / "collatz.c.gcov").read_text().splitlines())
    return {int(line): int(count.strip(" *")) for count, line, _ in rows if count.strip(" *").isdecimal()}


def test_each_statement_is_counted_as_gcov_counts_it(gilk: Any, program: str, tmp_path: Path) -> None:
    expected = told_by_gcov(tmp_path)
    wanted = [word for line in STATEMENTS for word in ("-i", f"collatz.c:{line}=count")]
    told = json.loads(gilk("run", "--json", *wanted, "--", program).stdout.splitlines()[-1])
    found: dict[int, int] = {}
    for point, count in told["counts"].items():
        line = int(re.search(r"\(collatz\.c:(\d+)\)$", point)[1])
        found[line] = found.get(line, 0) + count
    assert found == {line: expected[line] for line in STATEMENTS}


def test_a_line_is_named_by_file_image_and_number(gilk: Any, program: str) -> None:
    for words in ("collatz:collatz.c:12", "collatz.c:12", "a.out:collatz.c:12"):
        shown = gilk("run", "-i", f"{words}=count", "--", program).stderr
        assert re.search(r"^ +29 +collatz:collatz:\+0x[0-9a-f]+ \(collatz.c:12\)$", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("words", "slug", "hint"),
    [
        ("collatz.c:2", "no-such-line", "lines near it that have code: 3, 4, 5"),
        ("colatz.c:12", "no-such-line", "near names: collatz.c"),
        ("libc:collatz.c:12", "no-line-table|no-such-line", ""),
    ],
)
def test_lines_that_do_not_exist_are_refused(gilk: Any, program: str, words: str, slug: str, hint: str) -> None:
    done = gilk("run", "-i", f"{words}=count", "--", program)
    assert done.returncode == 2 and re.search(rf"\(({slug})\)", done.stderr) and hint in done.stderr


def test_d_probes_at_source_lines(gilk: Any, program: str) -> None:
    text = "pid$target:a.out:collatz.c:12 { @[probefunc] = count(); }"
    assert gilk("dtrace", "-q", "-n", text, "-c", program).stdout.split()[-2:] == ["collatz", "29"]


def test_listings_name_source_lines(gilk: Any, program: str, tmp_path: Path) -> None:
    dumped = subprocess.run(
        ["objdump", "-dl", "--no-show-raw-insn", program], capture_output=True, text=True, check=True
    )
    line, expected = "", {}
    for row in dumped.stdout.splitlines():
        if found := re.search(r"collatz\.c:(\d+)", row):
            line = found[1]
        elif found := re.match(r" +([0-9a-f]+):\t", row):
            expected[int(found[1], 16)] = line
    graph = json.loads(gilk("cfg", "--json", program, "collatz").stdout)
    ours = {each["address"]: each["source"] for block in graph["blocks"] for each in block["instructions"]}
    assert len(ours) > 15
    assert {at: source.rpartition(":")[2] for at, source in ours.items()} == {at: expected[at] for at in ours}
    assert "      collatz.c:12\n" in gilk("cfg", program, "collatz").stdout
    assert re.search(r" collatz\.c:3 +collatz$", gilk("scan", "-v", program, "collatz").stdout, re.MULTILINE)
    rows = json.loads(gilk("scan", "-v", "--json", program, "collatz").stdout)["list"]
    assert rows[0]["source"] == "collatz.c:3"


def test_source_lines_from_python(program: str) -> None:
    with package.launch([program]) as target, target.session() as session:
        session.insert("collatz.c:12", package.count)
        target.resume()
        wait_for(lambda: sum(session.counts().values()) == 29)


def test_coverage_of_lines_is_gcovs(gilk: Any, program: str, tmp_path: Path) -> None:
    done = gilk("run", "-i", "*:blocks=count", "--coverage", "c.info", "--", program)
    assert done.returncode == 0, done.stderr
    (record,) = (tmp_path / "c.info").read_text().split("end_of_record\n")[:-1]
    rows = [row.partition(":")[::2] for row in record.splitlines()]
    assert ("SF", str(tmp_path / "collatz.c")) in rows
    lines = dict(tuple(map(int, value.split(","))) for word, value in rows if word == "DA")
    expected = told_by_gcov(tmp_path)
    assert {line: count for line, count in lines.items() if line not in BRACES} == expected
    assert set(lines) - set(expected) == BRACES
    assert {value for word, value in rows if word == "FNDA"} == {"29,collatz", "1,main"}
    assert {value for word, value in rows if word == "FN"} == {"3,collatz", "14,main"}
    assert ("LF", str(len(lines))) in rows and ("LH", str(len(lines))) in rows


def test_a_stored_run_shows_the_source_with_the_counts_of_gcov(gilk: Any, program: str, tmp_path: Path) -> None:
    gilk("run", "-q", "-i", "*:blocks=count", "-o", "c.parquet", "--", program)
    (found,) = json.loads(gilk("show", "c.parquet", "--json", "--source", "coll*").stdout)["source"]
    expected = told_by_gcov(tmp_path)
    assert {row["line"]: row["count"] for row in found["lines"] if row["line"] not in BRACES} == expected
    assert all(row["text"] == SOURCE.splitlines()[row["line"] - 1] for row in found["lines"])
    assert [(each["name"], each["calls"]) for each in found["functions"]] == [("collatz", 29), ("main", 1)]
    shown = gilk("show", "--source", "c.parquet").stdout.splitlines()
    assert re.fullmatch(r"########  +\d+ +5      while \(n != 1\) \{", next(line for line in shown if "while" in line))
    assert re.fullmatch(r" +8          else", next(line for line in shown if "else" in line))
    assert "(no-such-line)" in gilk("show", "c.parquet", "--source", "other.c").stderr


def test_the_source_of_another_build_is_not_shown(gilk: Any, program: str, tmp_path: Path) -> None:
    gilk("run", "-q", "-i", "*:blocks=count", "-o", "c.parquet", "--", program)
    (tmp_path / "collatz.c").write_text("// one line more\n" + SOURCE)
    assert ": it is newer than the program\n" in gilk("show", "c.parquet", "--source").stdout
    subprocess.run(["gcc", "-g", "-O0", "collatz.c", "-o", "collatz"], cwd=tmp_path, check=True)
    done = gilk("show", "c.parquet", "--source")
    assert "(no-line-table)" in done.stderr and "has changed since the run" in done.stderr
    gilk("run", "-q", "-i", "main:entry=stamp", "-o", "s.parquet", "--", program)
    assert "(no-block-counts)" in gilk("show", "s.parquet", "--source").stderr


def told_by_addr2line(program: str, names: set[str]) -> dict[str, str]:
    """The lines, as FILE:LINE, at which the functions of these names begin."""
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    starts = {name: at for at, _, name in (row.split() for row in table.splitlines() if row.count(" ") == 2)}
    asked = ["addr2line", "-s", "-e", program, *(starts[name] for name in sorted(names))]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(sorted(names), lines, strict=True))


def lines_in_tree(nodes: list[dict[str, Any]]) -> dict[str, str]:
    found = {node["function"]: node.get("line", "") for node in nodes}
    for node in nodes:
        found |= lines_in_tree(node["children"])
    return found


def test_a_trace_names_the_lines_at_which_functions_begin(gilk: Any, program: str) -> None:
    expected = told_by_addr2line(program, {"collatz", "main"})
    gilk("trace", "-q", "--scope", "collatz:", "-o", "t.parquet", "--", program)
    told = json.loads(gilk("show", "--json", "--tree", "--table", "t.parquet").stdout)
    found = lines_in_tree(told["tree"][0]["calls"])
    assert {name: found[name] for name in expected} == expected
    assert not any(line for name, line in found.items() if name not in expected)
    assert {row["function"]: row["line"] for row in told["functions"] if "line" in row} == expected
    shown = gilk("show", "--tree", "--table", "t.parquet").stdout
    assert len(re.findall(r"  collatz \(collatz\.c:3\)", shown)) == 2
    gilk("run", "-q", "-i", "*:entry=time", "-o", "r.parquet", "--", program)
    assert re.search(r"  collatz \(collatz\.c:3\)$", gilk("show", "--tree", "r.parquet").stdout, re.MULTILINE)


def test_an_anomaly_names_the_line_of_its_function(gilk: Any, tmp_path: Path) -> None:
    """One of forty calls of a function calls another one, whatever time the calls take."""
    source = """
        __attribute__((noipa)) int rare(int n) { return n + 1; }
        __attribute__((noipa)) int often(int n) { return n + 2; }

        __attribute__((noipa)) int odd(int n) { return n == 30 ? rare(n) * 2 : often(n) * 3; }
        int main(void) { int sum = 0; for (int n = 0; n < 40; n++) sum += odd(n); return sum == 7; }
    """
    (tmp_path / "odd.c").write_text(source)
    subprocess.run(["gcc", "-g", "-O1", "odd.c", "-o", "odd"], cwd=tmp_path, check=True)
    gilk("trace", "-q", "--all", "--scope", "odd:", "-o", "t.parquet", "--", str(tmp_path / "odd"))
    told = json.loads(gilk("anomalies", "--json", "--min-time", "10s", "t.parquet").stdout)
    expected = told_by_addr2line(str(tmp_path / "odd"), {"odd"})["odd"]
    assert [(row["function"], row["line"]) for row in told["anomalies"]] == [("odd", expected)]
    shown = gilk("anomalies", "--min-time", "10s", "t.parquet").stdout
    assert shown.startswith(f"1. odd ({expected}) called otherwise")


def test_no_lines_of_a_program_that_was_replaced_are_shown(gilk: Any, program: str, tmp_path: Path) -> None:
    gilk("trace", "-q", "--scope", "collatz:", "-o", "t.parquet", "--", program)
    (tmp_path / "collatz.c").write_text("// one line more\n" + SOURCE + "int more;\n")
    subprocess.run(["gcc", "-g", "-O0", "collatz.c", "-o", "collatz"], cwd=tmp_path, check=True)
    told = json.loads(gilk("show", "--json", "--tree", "t.parquet").stdout)
    assert set(lines_in_tree(told["tree"][0]["calls"]).values()) == {""}
    shown = gilk("show", "--tree", "t.parquet").stdout
    assert "collatz.c" not in shown and f"note: {program} has changed since the run" in shown


def test_stacks_name_the_lines_of_their_calls(gilk: Any, program: str) -> None:
    """Each call of collatz lies in line 17."""
    told = json.loads(gilk("run", "--json", "-i", "collatz:entry=stack", "--", program).stdout.splitlines()[-1])
    (stack,) = told["stacks"]
    assert dict(zip(stack["frames"], stack["lines"], strict=True))["collatz`collatz"] == "collatz.c:3"
    (caller,) = (at for at, frame in enumerate(stack["frames"]) if frame.startswith("collatz`main+"))
    assert stack["lines"][caller] == "collatz.c:17"
    shown = gilk("run", "-i", "collatz:entry=stack", "--stacks", "s.folded", "--", program).stderr
    assert re.search(r"collatz`main\+0x[0-9a-f]+ \(collatz\.c:17\)$", shown, re.MULTILINE)


def test_stacks_of_d_name_the_lines_of_their_calls_if_asked(gilk: Any, program: str) -> None:
    clause = "pid$target:collatz:collatz:entry { @[ustack()] = count(); }"
    plain, sourced = (
        gilk("dtrace", "-q", *words, "-n", clause, "-c", program).stdout for words in ((), ("-x", "sourcelines"))
    )
    frames = [line.strip() for line in sourced.splitlines() if "`" in line]
    assert frames[0] == "collatz`collatz (collatz.c:3)"
    assert re.fullmatch(r"collatz`main\+0x[0-9a-f]+ \(collatz\.c:17\)", frames[1])
    assert [frame.partition(" ")[0] for frame in frames] == [line.strip() for line in plain.splitlines() if "`" in line]


@pytest.mark.stress
def test_flame_graphs_tell_lines_under_the_pointer(gilk: Any, program: str, tmp_path: Path) -> None:
    """Calls have the line at which the function begins, stacks the lines at which the function was."""
    between = ("--start", "call:main", "--stop", "return:main")  # so that main is as wide as the picture
    gilk("trace", "-q", *between, "--scope", "collatz:", "-o", "t.parquet", "--", program)
    gilk("show", "t.parquet", "--flame", "calls.svg")
    begins = told_by_addr2line(program, {"main"})["main"]
    assert f"<title>main\ncollatz ({begins}): 1 call," in (tmp_path / "calls.svg").read_text()
    gilk("run", "-q", "-i", "collatz:entry=stack", "--stacks", "stacks.svg", "--", program)
    drawn = (tmp_path / "stacks.svg").read_text()
    assert "<title>collatz\ncollatz: 29 stacks (100 %), at collatz.c:3</title>" in drawn
    assert "<title>main\ncollatz: 29 stacks (100 %), at collatz.c:17</title>" in drawn


@pytest.mark.stress
def test_a_comparison_names_the_lines_at_which_functions_begin(gilk: Any, tmp_path: Path) -> None:
    source = """
        __attribute__((noipa)) int more(int n) { return n + 1; }

        __attribute__((noipa)) int work(int n) { return n > 1 ? more(n) : n; }
        int main(int argc, char **argv) { (void)argv; return work(argc) == 7; }
    """
    (tmp_path / "two.c").write_text(source)
    program = str(tmp_path / "two")
    subprocess.run(["gcc", "-g", "-O1", "two.c", "-o", "two"], cwd=tmp_path, check=True)
    for name, words in (("a", ()), ("b", ("again",))):
        gilk("trace", "-q", "--all", "--scope", "two:", "-o", f"{name}.parquet", "--", program, *words)
    expected = told_by_addr2line(program, {"main", "more", "work"})
    told = json.loads(gilk("diff", "--json", "a.parquet", "b.parquet").stdout)
    assert [(row["path"][-1], row["line"]) for row in told["only_b"]] == [("more", expected["more"])]
    lines = {row["path"][-1]: row["line"] for row in told["times"] if row["path"][-1] in expected}
    assert lines and lines == {name: expected[name] for name in lines}
    assert f" > work > more ({expected['more']})\n" in gilk("diff", "a.parquet", "b.parquet").stdout


def test_lines_that_did_not_run_are_in_the_coverage(gilk: Any, program: str, tmp_path: Path) -> None:
    """The lines are those of gcov if the loop is never entered: a function that is not called."""
    source = SOURCE.replace("n < 30", "n < 1")
    (tmp_path / "collatz.c").write_text(source)
    subprocess.run(["gcc", "-g", "-O0", "collatz.c", "-o", "collatz"], cwd=tmp_path, check=True)
    gilk("run", "-i", "*:blocks=count", "--coverage", "c.info", "--", program)
    text = (tmp_path / "c.info").read_text()
    missed = {int(line) for line in re.findall(r"^DA:(\d+),0$", text, re.MULTILINE)}
    told_by_gcov(tmp_path)
    report = (tmp_path / "collatz.c.gcov").read_text()
    assert missed - BRACES == {int(line) for line in re.findall(r"^ *#####: *(\d+):", report, re.MULTILINE)}
    assert "FNDA:0,collatz\n" in text and "FNH:1\n" in text


def test_coverage_of_blocks_lists_the_blocks_that_ran(gilk: Any, program: str, tmp_path: Path) -> None:
    """The blocks agree with the counts of the same run; a block's start and size are those of gilk cfg."""
    done = gilk("run", "--json", "-i", "collatz=@coverage", "--coverage", "c.drcov", "--", program)
    counts = json.loads(done.stdout.splitlines()[-1])["counts"]
    data = (tmp_path / "c.drcov").read_bytes()
    head, _, rows = data.partition(b" bbs\n")
    assert head.startswith(b"DRCOV VERSION: 2\nDRCOV FLAVOR: gilk\nModule Table: version 2, count 1\n")
    assert program.encode() in head and len(rows) == 8 * int(head.rpartition(b" ")[2])
    blocks = json.loads(gilk("cfg", "--json", program, "collatz").stdout)["blocks"]
    ran = {each["index"] for each in blocks if counts.get(f"collatz:collatz:@{each['index']}:pre")}
    assert ran and set(struct.iter_unpack("<IHH", rows)) == {
        (each["start"], each["end"] - each["start"], 0) for each in blocks if each["index"] in ran
    }


@pytest.mark.parametrize(
    "words", [["-i", "main:blocks=count", "--coverage", "c.txt"], ["-i", "main:entry=time", "--coverage", "c.info"]]
)
def test_bad_coverage_options_are_refused(gilk: Any, program: str, words: list[str]) -> None:
    done = gilk("run", *words, "--", program)
    assert done.returncode == 2 and "(bad-coverage)" in done.stderr

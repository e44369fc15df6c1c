# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run tools/peers on programs made here: it reports the right things as equal, as wrong, and as left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import ROOT
from tools.peer_suites import oracle
from tools.peer_suites.differences import Difference, Spot, counts, ends, explained, reasons, unsteady
from tools.peer_suites.running import Ended
from tools.peer_suites.suites import SUITES, checked_out
from tools.peer_suites.ways import parted

ORDINARY = """#include <stdio.h>
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d", fib(9)); return 7; }
"""
#: A program that detects the jump at its own entry.
LOOKS = """#include <stdio.h>
int main(void) { printf("%02x\\n", *(unsigned char *)main); return 0; }
"""
STAYS = """#include <unistd.h>
int main(void) { if (!fork()) { setsid(); sleep(1000); } return 0; }
"""
SPINS = "int main(void) { for (;;) ; }\n"
LIMIT = 120.0  # seconds for runs that take long


def start(directory: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "tools" / "peers"), str(directory), "--suite", "directory", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def peers(directory: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(directory, *arguments)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def programs(directory: Path, **sources: str) -> Path:
    directory.mkdir()
    for name, text in sources.items():
        (directory / f"{name}.c").write_text(text)
    return directory


@pytest.mark.stress
def test_a_program_that_behaves_the_same_is_reported_as_equal(tmp_path: Path) -> None:
    place, state = programs(tmp_path / "suite", ordinary=ORDINARY), tmp_path / "state"
    arguments = ("--flags", "O0,dense", "--state", str(state), "--json")
    status, out, err = peers(place, *arguments)
    rows = json.loads(out)["results"]
    assert status == 0, out
    assert [(row["flags"], row["outcome"], row["differences"]) for row in rows] == [
        ("O0", "built", []), ("dense", "built", []),
    ]  # fmt: skip
    assert all(row["ways"] == ["instructions", "blocks", "time", "trace"] and row["points"] > 20 for row in rows)
    assert "2/2 ordinary dense: same" in err
    before = state.read_text()
    assert peers(place, *arguments)[:2] == (0, out)
    assert state.read_text() == before, "what is known is not found out again"


@pytest.mark.stress
def test_a_difference_needs_a_reason(tmp_path: Path) -> None:
    place, table = programs(tmp_path / "suite", looks=LOOKS), tmp_path / "reasons.toml"
    status, out, _ = peers(place, "--flags", "O0", "--ways", "blocks")
    assert status == 1 and "WRONG directory/looks O0, blocks, stdout: at byte 0" in out
    table.write_text('[[reason]]\nprogram = "look*"\nwhat = "stdout"\nwhy = "it reads its own code"\n')
    status, out, _ = peers(place, "--flags", "O0", "--ways", "blocks", "--reasons", str(table))
    assert status == 0 and "1 times: it reads its own code" in out


def below(directory: Path) -> list[str]:
    """The command lines of the processes whose working directory is below ``directory``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = os.readlink(path)
        except OSError:
            continue
        if where.startswith(str(directory)):
            found.append(where)
    return found


@pytest.mark.stress
def test_processes_and_files_of_programs_are_removed(tmp_path: Path) -> None:
    place, scratch = programs(tmp_path / "suite", stays=STAYS), tmp_path / "scratch"
    scratch.mkdir()
    process = start(place, "--flags", "O2", "--ways", "blocks", env={**os.environ, "TMPDIR": str(scratch)})
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert below(scratch) == [] and list(scratch.iterdir()) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_no_process_and_no_file(tmp_path: Path, number: int, status: int) -> None:
    place, scratch = programs(tmp_path / "suite", spins=SPINS), tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = start(place, "--deadline", "1000", env=environment)
    limit = time.monotonic() + LIMIT
    while not any(each.endswith("/cwd") for each in below(scratch)):
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=LIMIT)
    assert process.returncode == status
    assert below(scratch) == [] and list(scratch.iterdir()) == []


def ended(status: int | None = 0, out: bytes = b"", left: tuple[str, ...] = ()) -> Ended:
    return Ended(status, out, b"", 1.0, left)


@pytest.mark.parametrize(
    ("plain", "found", "what"),
    [
        (ended(3), ended(4), ["status"]),
        (ended(-11), ended(139), []),
        (ended(out=b"a\nb\n"), ended(out=b"b\na\n"), ["stdout-order"]),
        (ended(out=b"a\n"), ended(out=b"a"), ["stdout"]),
        (ended(), ended(None), ["deadline"]),
        (ended(), ended(left=("sleep",)), ["left"]),
        (ended(left=("sleep",)), ended(left=("sleep",)), []),
    ],
)
def test_differences_of_runs_are_named(plain: Ended, found: Ended, what: list[str]) -> None:
    assert [each.what for each in ends("time", plain, found, frozenset())] == what


def test_output_that_varies_by_itself_is_not_compared() -> None:
    but = unsteady(ended(out=b"1"), ended(out=b"2"))
    assert but == {"stdout"}
    assert list(ends("time", ended(out=b"1"), ended(out=b"3"), but)) == []


def test_counts_that_contradict_the_oracle_are_reported() -> None:
    """The oracle counts an instruction that repeats by its rounds."""
    spots = {"f:+0x0": Spot(16, ""), "f:+0x4": Spot(20, "rep")}
    found = {"f:+0x0": 2, "f:+0x4": 1}

    def contradicted(least: dict[int, int], most: dict[int, int]) -> bool:
        return any(counts("blocks", found, spots, oracle.Bounds(Counter(least), Counter(most))))

    assert not contradicted({16: 2, 20: 9}, {16: 2, 20: 9})
    assert not contradicted({16: 1, 20: 1}, {16: 2, 20: 2})
    assert contradicted({16: 3, 20: 9}, {16: 3, 20: 9})
    assert contradicted({16: 2}, {16: 2})


def test_counts_of_callgrind_are_parsed() -> None:
    text = "positions: instr\nob=(1) /x/prog\nfn=(1) f\n0x10 2\n+4 2\n"
    text += "cob=(2) /lib\ncalls=2 0x99\n* 700\n+2 1\nob=(2)\n0x10 5\n"
    assert oracle.parse(text, "/x/prog") == {0x10: 2, 0x14: 2, 0x16: 1}


def test_a_programs_output_and_gilks_report_are_separated() -> None:
    for output in (b"", b"text", b'text\n{"a', b'{"a": 1}\n'):
        program, report = parted(ended(out=output + b'{"counts": {"f:{\\"": 1}}\n'))
        assert (program.out, report) == (output, {"counts": {'f:{"': 1}})
    assert parted(ended(out=b"text"))[1] is None


def test_every_reason_in_the_table_is_parsed() -> None:
    known = reasons(ROOT / "tools" / "peer_suites" / "reasons.toml")
    assert all(each.why and (each.program, each.flags, each.way) != ("*", "*", "*") for each in known)
    found = Difference("no such way", "stdout", "")
    assert explained(found, "no such suite", "a.c", "O0", known) == found


def test_a_suite_is_read_from_a_git_directory(tmp_path: Path) -> None:
    place, git = programs(tmp_path / "tests", one=ORDINARY), tmp_path / "bare.git"
    (place / "s-one.c").write_text(ORDINARY)
    (place / "README").write_text("")
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", tmp_path, git], check=True)
    root = checked_out(git, SUITES["uftrace"], tmp_path / "into")
    assert [each.name for each in SUITES["uftrace"].programs(root)] == ["s-one.c"]
    assert sorted(path.name for path in (root / "tests").iterdir()) == ["one.c", "s-one.c"]

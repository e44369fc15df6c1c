# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk diff``: its status is diff(1)'s, and the call that never returned is its first line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gilk.cli.main import main
from tests.behaviour.harness import run_gilk
from tests.trace.machine import nested, write

GOOD = nested(("main", 10, ("ioctl", 10, ("bios", 5), ("bios\x1b]0;x", 5)), ("poll", 5)))
HUNG = nested(("main", 10, ("ioctl", 10, ("!bios", 5))))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return str(write(tmp_path / "a.parquet", GOOD)), str(write(tmp_path / "b.parquet", HUNG))


def test_exit_status_and_first_line_of_a_difference(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", files[0], files[0]]) == 0
    assert capsys.readouterr().out.startswith("the same calls in the same order\n")
    assert main(["diff", *files]) == 1
    text = capsys.readouterr().out
    assert text.startswith("never returned:\n  bios: in B it was still running when the trace stopped")
    assert "    main > ioctl > bios\n" in text
    assert "calls only in A:\n" in text
    assert "\x1b" not in text


def test_json_has_the_unfinished_calls(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *files, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["same"] is False
    assert found["unfinished"][0]["path"] == ["main", "ioctl", "bios"]
    assert {tuple(each["path"]) for each in found["only_a"]} == {("main", "poll"), ("main", "ioctl", "bios\x1b]0;x")}


def test_slower_calls_count_as_differences_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (str(write(tmp_path / f"{own}.parquet", nested(("main", 100, ("f", own))))) for own in (100, 250))
    assert main(["diff", a, b]) == 0
    assert main(["diff", a, b, "--slower", "3"]) == 0
    capsys.readouterr()
    assert main(["diff", a, b, "--slower", "2"]) == 1
    text = capsys.readouterr().out
    assert "more than 2 times slower in B:\n  +150ns  main > f: 100ns a call, then 250ns (x 1)\n" in text


def test_an_unreadable_file_exits_with_6(tmp_path: Path, files: tuple[str, str]) -> None:
    assert main(["diff", files[0], str(tmp_path / "none")]) == 6


PROGRAM = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) void step(int n) { for (volatile int k = 0; k < n; k++) ; }
__attribute__((noipa)) void wake(int n) { if (n) { alarm(6); pause(); } }
int main(int argc, char **argv)
{
	for (int n = 0; n < 10; n++)
		step(n);
	wake(argc > 1);
	step(99);
	return 0;
}
"""


def test_a_hanging_run_of_a_program_differs_from_a_good_one(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    points = [option for name in ("main", "step", "wake") for option in ("-i", f"{name}:entry=time")]
    for output, arguments in (("a", ["--", "./p"]), ("b", ["--for", "1", "--", "./p", "hang"])):
        words = ("run", "-q", *points, "-o", f"{output}.parquet", *arguments)
        run_gilk(*words, cwd=tmp_path, env=gilk_on_path, timeout=250)
    done = run_gilk("diff", "a.parquet", "b.parquet", "--json", cwd=tmp_path, env=gilk_on_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [each["path"] for each in found["unfinished"]] == [["main", "wake"]]
    assert [(each["path"], each["calls"]) for each in found["only_a"]] == [(["main", "step"], 1)]
    assert found["only_b"] == []

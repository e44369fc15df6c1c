# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lines about long work: when they are due, by the test's own clock, and where they are written."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from gilk import activity
from gilk.activity import Activity
from gilk.cli import progress, running
from gilk.cli.progress import Beat, interval
from gilk.runs.outcome import Result
from tests.behaviour.harness import run_gilk
from tests.programs.build import build
from tests.seldom import seldom

Environment = dict[str, str]
IMAGES = Activity("analysing", 12, 31, "images")


def test_progress_is_printed_every_five_seconds() -> None:
    beat = Beat(100.0, 5.0)
    told = {now: beat.line(now, IMAGES) for now in (100.0, 104.9, 105.0, 105.5, 109.9, 110.0, 131.2)}
    assert {now: line for now, line in told.items() if line is not None} == {
        105.0: "analysing 12 of 31 images, 5 s",
        110.0: "analysing 12 of 31 images, 10 s",
        131.2: "analysing 12 of 31 images, 31 s",
    }


def test_no_progress_is_printed_when_it_is_switched_off() -> None:
    assert Beat(0.0, 0.0).line(1e9, IMAGES) is None


def test_progress_of_work_of_unknown_size() -> None:
    assert Beat(0.0, 1.0).line(7.0, Activity("planning")) == "planning, 7 s"


@pytest.mark.parametrize(("given", "seconds"), [("2.5", 2.5), ("0", 0.0), ("-3", 0.0), ("soon", 5.0), (None, 5.0)])
def test_an_environment_variable_sets_the_interval_of_progress(
    monkeypatch: pytest.MonkeyPatch, given: str | None, seconds: float
) -> None:
    monkeypatch.delenv("GILK_PROGRESS", raising=False)
    if given is not None:
        monkeypatch.setenv("GILK_PROGRESS", given)
    assert interval() == seconds


def test_the_progress_thread_ends_with_the_work(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The thread reports progress until the work is over, whatever ended it."""
    monkeypatch.setenv("GILK_PROGRESS", "1e-9")
    seen: list[str] = []
    with pytest.raises(KeyError), progress.working("waiting", True):
        activity.tell("analysing", 3, 4, "images")
        while not any("3 of 4" in line for line in seen):
            seen += capfd.readouterr().err.splitlines()
        raise KeyError
    assert re.fullmatch(r"gilk: (waiting|analysing 3 of 4 images), \d+ s", seen[-1])
    capfd.readouterr()
    with progress.working("waiting", False):
        pass
    assert capfd.readouterr().err == ""


def result(file: str) -> Result:
    return Result({}, None, {"records": 31_000_000}, {}, {}, True, False, [], file)


def test_a_report_that_takes_long_says_first_that_all_is_taken_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GILK_PROGRESS", "1e-9")
    seen: list[str] = []

    def report(_result: Result) -> Any:
        while not any("2 of 31" in line for line in seen):
            seen.extend(capfd.readouterr().err.splitlines())
            if seen:
                activity.tell("summing up", 2, 31, "records")

    running.summed_up(report, result("t.parquet"), running.Stop(), False)
    assert seen[0] == "gilk: all is taken out; summing up 31000000 records, 0 s"


@pytest.mark.parametrize("earlier", [0, 1])
def test_ctrl_c_ends_a_report_and_names_the_file(earlier: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Also if an earlier one has ended the trace; and the first one, of a program that shares the terminal."""
    stop = running.Stop(shared=not earlier)
    for _ in range(earlier):
        stop.arrived(signal.SIGINT, None)

    def report(_result: Result) -> Any:
        stop.arrived(signal.SIGINT, None)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        running.summed_up(report, result("t.parquet"), stop, True)
    assert capfd.readouterr().err == "gilk: not summed up; the file is whole, and gilk show t.parquet reads it\n"


@pytest.mark.parametrize("words", seldom(["show FILE", "diff FILE FILE", "show --html FILE", "export --to csv FILE",
                                          "anomalies FILE", "query FILE select+1"], 2))  # fmt: skip
def test_commands_about_files_print_progress(gilk_on_path: Environment, tmp_path: Path, words: str) -> None:
    def said(*words: str, **changed: str) -> list[str]:
        now = {**gilk_on_path, "GILK_PROGRESS": "1e-9", **changed}
        done = run_gilk(*words, env=now, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^gilk: (?:reading|writing|comparing)\b.*, \d+ s$", done.stderr, re.MULTILINE)

    program = str(build("calls"))
    said("run", "-i", "*:entry=time", "-o", "t.parquet", "--", program)
    command = [word.replace("FILE", "t.parquet").replace("+", " ") for word in words.split()]
    assert said(*command)
    assert not said(*command, GILK_PROGRESS="0") and not said(*command, "--json")


@pytest.mark.parametrize(
    "command",
    [
        ["run", "-i", "*:entry=count", "--"],
        pytest.param(["trace", "--scope", "calls:", "-o", "t.parquet", "--"], marks=pytest.mark.stress),
        ["dtrace", "-n", "pid$target:a.out::entry { @ = count(); }", "-c"],
        ["scan"],
    ],
)
def test_commands_print_progress_unless_quiet(gilk_on_path: Environment, tmp_path: Path, command: list[str]) -> None:
    program = str(build("calls"))
    environment = {**gilk_on_path, "GILK_PROGRESS": "1e-9", "GILK_CACHE": str(tmp_path / "cache")}

    def said(*words: str, **changed: str) -> list[str]:
        environment_now = {**environment, **changed}
        done = run_gilk(*words, program, env=environment_now, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return re.findall(r"^gilk: (analysing|planning|compiling)\b.*, \d+ s$", done.stderr, re.MULTILINE)

    assert said(*command)
    assert not said(*command, GILK_PROGRESS="0")
    if command[0] in ("run", "trace"):
        assert not said(command[0], "-q", *command[1:])
        assert not said(command[0], "--json", *command[1:])

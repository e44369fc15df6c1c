# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk top``: its calls agree with the compiler's own counters and with a trace; its times add up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gilk.render.flow_table import functions
from gilk.trace.reading import read
from tests.behaviour.harness import run_gilk
from tests.behaviour.waiting import PATIENCE, wait_for
from tests.programs.build import compile_text

Environment = dict[str, str]
#: So few calls that no function is left out for being called too often, however they are spread over time.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
#define USED(p) asm volatile("" :: "r"(p) : "memory")
static volatile int on = 1;
APART long leaf(long n) { USED(n); return n + 1; }
APART long fib(long n) { USED(n); return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }
APART long deep(long n) { USED(n); if (!n) usleep(20000); long r = n ? deep(n - 1) : 0; USED(r); return r; }
APART void naps(void) { usleep(10000); usleep(10000); }
APART void *thread(void *p) { for (long i = 0; i < 9; i++) leaf(i); return p; }
APART void hot(void) { while (on) leaf(3); }
APART void turn(void) { leaf(1); leaf(2); usleep(500); }
int main(int count, char **words) {
    pthread_t t;
    if (count > 1 && words[1][0] == 'h') hot();
    if (count > 1) { puts("ready"); fflush(stdout); }
    while (count > 1 && words[1][0] == 't') { turn(); USED(words); }
    if (count > 1) { getchar(); naps(); return 0; }
    fib(9); deep(50); naps();
    pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
    return 3;
}
"""
OWN = ("leaf", "fib", "deep", "naps", "thread", "hot", "turn", "main")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("top"), "busy", PROGRAM, "-O1", "-w")


def lines(*words: str, environment: Environment, status: int = 0) -> list[Any]:
    done = run_gilk("top", "--json", *words, env=environment)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(answer: Any) -> dict[str, int]:
    return {row["function"]: row["calls"] for row in answer["functions"] if row["function"] in OWN}


def counted_by_the_compiler(place: Path) -> dict[str, int]:
    """The calls of each function, by gcov."""
    flags = ["-O1", "--coverage", "-pthread", "../busy.c", "-o", "busy"]
    place.mkdir()
    subprocess.run(["gcc", *flags], cwd=place, check=True)
    assert subprocess.run(["./busy"], cwd=place).returncode == 3
    command = ["gcov", "--json-format", "--stdout", str(next(place.glob("*.gcda")))]
    told = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout
    found = json.loads(told)["files"][0]["functions"]
    return {each["name"]: each["execution_count"] for each in found if each["execution_count"]}


def test_calls_agree_with_compiler_counters_and_with_a_trace(
    gilk_on_path: Environment, program: Path, tmp_path: Path
) -> None:
    answer = lines("--scope", "a.out:", "--", str(program), environment=gilk_on_path, status=3)[-1]
    assert answer["whole"] and not answer["dropped"] and not answer["left_out"] and answer["threads"] == 2
    assert calls(answer) == counted_by_the_compiler(program.parent / "counted")
    words = ("trace", "-q", "--scope", "a.out:", "-o", tmp_path / "t.parquet", "--", program)
    assert run_gilk(*words, env=gilk_on_path).returncode == 3
    traced = functions(read(tmp_path / "t.parquet").flow)
    assert {row["function"]: row["calls"] for row in answer["functions"]} == {
        row["function"]: row["calls"] for row in traced
    }


def test_self_times_add_up_to_total_times(gilk_on_path: Environment, program: Path) -> None:
    answer = lines("--scope", "a.out:", "--", str(program), environment=gilk_on_path, status=3)[-1]
    rows = {row["function"]: row for row in answer["functions"]}
    assert 20_000_000 <= rows["deep"]["total"] <= rows["main"]["total"], "50 levels are not counted 50 times"
    assert rows["naps"]["self"] == rows["naps"]["total"] >= 20_000_000, "what is not followed counts as its caller's"
    assert rows["thread"]["total"] - rows["thread"]["self"] <= rows["leaf"]["total"]
    assert all(0 <= row["self"] <= row["total"] for row in rows.values())
    assert rows["main"]["total"] <= answer["stop"] - answer["start"]


@contextmanager
def running(program: Path, manner: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([program, manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            if manner != "hot":
                assert target.stdout is not None and target.stdout.readline() == "ready\n"
            yield target
        finally:
            target.kill()


def instrumented(target: subprocess.Popen[str]) -> bool:
    return "memfd:gilk" in Path(f"/proc/{target.pid}/maps").read_text()


def test_top_prints_periods_and_the_whole_at_ctrl_c(gilk_on_path: Environment, program: Path) -> None:
    with running(program, "turns") as target:
        command = ["gilk", "top", "--json", "--scope", "a.out:", "--every", "50ms", "-p", str(target.pid)]
        with subprocess.Popen(command, env=gilk_on_path, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            periods = [json.loads(asking.stdout.readline()) for _ in range(3)]
            asking.send_signal(signal.SIGINT)
            periods += map(json.loads, asking.stdout)
            assert asking.wait(PATIENCE) == 0
        *periods, whole = periods
        assert whole["whole"] and not any(each["whole"] for each in periods)
        assert whole["restored"] is True and target.poll() is None and not instrumented(target)
        assert [each["start"] for each in periods] == [whole["start"], *(each["stop"] for each in periods[:-1])]
        assert sum(calls(each).get("turn", 0) for each in periods) <= calls(whole)["turn"]
        # A turn calls leaf twice; a turn may have been under way at each end.
        assert abs(calls(whole)["leaf"] - 2 * calls(whole)["turn"]) <= 4


def test_top_prints_the_whole_when_the_process_ends(gilk_on_path: Environment, program: Path) -> None:
    with running(program, "wait") as target:
        command = ["gilk", "top", "--json", "--every", "50ms", "-p", str(target.pid)]
        with subprocess.Popen(command, env=gilk_on_path, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None and target.stdin is not None
            first = json.loads(asking.stdout.readline())
            target.stdin.write("\n")
            target.stdin.close()
            last = [json.loads(line) for line in asking.stdout][-1]
            assert (asking.wait(PATIENCE), target.wait(PATIENCE)) == (0, 0)
    assert not first["whole"] and last["whole"] and calls(last)["naps"] == 1


@pytest.mark.stress
def test_functions_called_too_often_are_left_out_by_name(gilk_on_path: Environment, program: Path) -> None:
    with running(program, "hot") as target:
        command = ["gilk", "top", "--json", "--scope", "a.out:", "--every", "50ms", "-p", str(target.pid)]
        with subprocess.Popen(command, env=gilk_on_path, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            left_out, seen = False, set[str]()
            while not (left_out and "leaf" in seen):
                period = json.loads(asking.stdout.readline())
                left_out = left_out or bool(period["left_out"])
                seen |= {each["function"] for each in period["seen"] if each["image"] == "busy"}
            asking.send_signal(signal.SIGINT)
            whole = [json.loads(line) for line in asking.stdout][-1]
        assert [(each["function"], each["image"]) for each in whole["left_out"]] == [("leaf", "busy")]
        assert seen <= {each["function"] for each in whole["seen"] if each["image"] == "busy"} <= {"leaf", "hot"}
        assert whole["restored"] is True


def test_the_text_report_of_top(gilk_on_path: Environment, program: Path) -> None:
    words = ("top", "--scope", "a.out:", "--sort", "calls", "-n", "2", "--", program)
    told = run_gilk(*words, env=gilk_on_path).stderr
    last = told.split("in all: ")[1]
    heading = r"self +total +calls +seen +function +image"
    assert re.match(rf"[\d.]+m?s, \d+ calls of \d+ functions in 2 threads\n{heading}\n", last)
    assert [line.split()[5] for line in last.splitlines()[2:4]] == ["fib", "leaf"]
    assert re.match(r"and \d+ functions more$", last.splitlines()[4])


def test_a_terminal_shows_one_table_updated_in_place_and_the_whole_at_the_end(
    gilk_on_path: Environment, program: Path
) -> None:
    ours, its = os.openpty()
    with running(program, "turns") as target:
        command = ["gilk", "top", "--scope", "a.out:", "--every", "50ms", "-p", str(target.pid)]
        with subprocess.Popen(command, env={**gilk_on_path, "TERM": "xterm"}, stdout=its, stderr=its) as asking:
            os.close(its)
            shown = b""
            while shown.count(b"seen  function") < 3:
                shown += os.read(ours, 4096)
            assert b"in all" not in shown
            asking.send_signal(signal.SIGINT)
            while b"in all: " not in shown:
                shown += os.read(ours, 4096)
            wait_for(lambda: asking.poll() is not None)
    assert b"\x1b[1A\x1b[2K" in shown, "a table takes the place of the one before"
    os.close(ours)


@pytest.mark.parametrize(
    ("words", "slug", "status"),
    [
        ([], "no-target", 2),
        (["-p", "1", "--", "true"], "no-target", 2),
        (["-p", "999999999"], "no-such-process", 4),
        (["--every", "0", "--", "true"], "usage", 2),
        (["--every", "now", "--", "true"], "usage", 2),
        (["--scope", ":", "--", "true"], "bad-scope", 2),
    ],
)
def test_bad_options_of_top_are_refused(gilk_on_path: Environment, words: list[str], slug: str, status: int) -> None:
    done = run_gilk("top", *words, env=gilk_on_path)
    assert done.returncode == status and f"({slug})" in done.stderr, done.stderr

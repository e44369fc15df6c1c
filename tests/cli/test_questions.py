# SPDX-License-Identifier: LGPL-2.1-or-later
"""The commands that ask questions: answers agree with strace, and with the program's source."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import differences, leftovers, run_gilk
from tests.behaviour.waiting import PATIENCE, wait_for
from tests.programs.build import compile_text
from tests.seldom import seldom

Environment = dict[str, str]
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define APART __attribute__((noinline))
#define USED(p) asm volatile("" :: "r"(p) : "memory")
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
struct { long before; pthread_mutex_t inner; } guarded = { 1, PTHREAD_MUTEX_INITIALIZER };
APART void three(void) { for (int i = 0; i < 3; i++) { void *p = malloc(100); USED(p); } }
APART void given(void) { for (int i = 0; i < 5; i++) { void *p = calloc(4, 10); USED(p); free(p); } }
APART void grow(void) { void *p = realloc(0, 64); p = realloc(p, 128); p = realloc(p, 100000); USED(p); free(p); }
APART void locking(void) { for (int i = 0; i < 7; i++) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); } }
APART void inside(void) {
    for (int i = 0; i < 4; i++) { pthread_mutex_lock(&guarded.inner); pthread_mutex_unlock(&guarded.inner); }
}
APART int waits(long us, long number) { usleep(us); USED(number); return 0; }
APART void calling(void) { for (long i = 0; i < 6; i++) { waits(i % 3 == 2 ? 50000 : 0, 40 + i); USED(i); } }
int main(int count, char **words) {
    three(); given(); grow(); locking(); inside(); calling();
    for (int i = 0; i < 9; i++) close(-1);
    while (count > 1) { usleep(1000); USED(words); }
    return 3;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("asked"), "asked", PROGRAM, "-O1", "-w")


@pytest.fixture
def ask(gilk_on_path: Environment) -> Any:
    def answer(*words: str) -> Any:
        done = run_gilk(*words, env=gilk_on_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return answer


def by_name(answer: Any) -> dict[str, Any]:
    return {row.pop("name"): row for row in answer["rows"]}


def test_syscalls_reports_as_many_calls_as_strace(ask: Any, program: Path) -> None:
    """These calls are the program's own; the dynamic loader makes none of them before gilk is there."""
    command = ["strace", "-e", "trace=close,clock_nanosleep", program]
    told = subprocess.run(command, capture_output=True, text=True).stderr
    naps = re.findall(r"^clock_nanosleep\(", told, re.MULTILINE)
    failed = re.findall(r"^close\(.*EBADF", told, re.MULTILINE)
    assert (len(naps), len(failed)) == (6, 9)
    found = by_name(ask("syscalls", "--json", "--", str(program)))
    assert found["close"]["errors"] == found["close"]["calls"] == len(failed)
    assert (found["clock_nanosleep"]["calls"], found["clock_nanosleep"]["errors"]) == (len(naps), 0)
    assert found["clock_nanosleep"]["longest"] >= 50_000_000 and found["exit_group"]["calls"] == 1


def test_mallocs_reports_the_allocations_in_the_source(ask: Any, program: Path) -> None:
    answer = ask("mallocs", "--json", "--", str(program))
    assert answer["totals"] == {"allocations": 11, "allocated": 300 + 200 + 100_192, "frees": 8, "freed": 100_392}
    assert not answer["partial"] and answer["notes"] == []
    assert by_name(answer) == {
        "asked`grow": {"calls": 3, "bytes": 100_192, "largest": 100_000},
        "asked`three": {"calls": 3, "bytes": 300, "largest": 100},
        "asked`given": {"calls": 5, "bytes": 200, "largest": 40},
    }


def test_locks_reports_the_mutexes_in_the_source(ask: Any, program: Path) -> None:
    row = by_name(ask("locks", "--json", "--", str(program)))["asked`locking"]
    assert row["calls"] == 7 and 0 < row["longest"] <= row["time"]


def test_locks_names_mutexes_by_the_variables_that_they_lie_in(ask: Any, program: Path) -> None:
    """The names are those of nm."""
    rows = by_name(ask("locks", "--by", "mutex", "--json", "--", str(program)))
    assert {name: rows[name]["calls"] for name in ("asked`mutex", "asked`guarded")} == {
        "asked`mutex": 7, "asked`guarded": 4,
    }  # fmt: skip
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert all(re.search(rf" [bBdD] {name}$", symbols, re.MULTILINE) for name in ("mutex", "guarded"))


def test_addresses_of_variables_have_names_in_d(gilk_on_path: Environment, program: Path) -> None:
    text = "pid$target:libc:pthread_mutex_lock:entry { @[usym(arg0)] = count(); }"
    done = run_gilk("dtrace", "-q", "-n", text, "-c", program, env=gilk_on_path)
    found = dict(line.split() for line in done.stdout.splitlines() if line.strip())
    assert (found["asked`mutex"], found["asked`guarded"]) == ("7", "4")


def test_slow_reports_calls_with_arguments_and_callers(ask: Any, program: Path) -> None:
    answer = ask("slow", "waits", "--longer-than", "50ms", "--json", "--", str(program))
    assert answer["totals"]["calls"] == 6
    slow = {each["arg1"]: each for each in answer["records"]}
    assert {42, 45} <= set(slow) and all(each["took"] >= 50_000_000 for each in slow.values())
    assert slow[42]["arg0"] == 50_000 and answer["totals"]["slow"] == len(slow)
    frames = [re.sub(r"\+0x.*", "", frame) for frame in slow[42]["stack"]]
    assert frames[:3] == ["asked`waits", "asked`calling", "asked`main"]


TREE = r"""
#include <unistd.h>
#define APART __attribute__((noinline))
static volatile int sink;
APART void rest(void) { usleep(40000); sink++; }
APART void quick(void) { sink++; }
APART int step(int n) { quick(); if (n % 10 == 0) rest(); sink++; return n; }
APART int down(int n) { if (n) return down(n - 1) + 1; rest(); return sink; }
int main(void) { for (int n = 1; n <= 50; n++) step(n); return down(3) == 0; }
"""


def test_slow_shows_what_slow_calls_call_and_what_others_do_otherwise(ask: Any, tmp_path: Path) -> None:
    """A busy machine may make other calls slow, too: there are at least those that rest."""
    program, kept = compile_text(tmp_path, "steps", TREE, "-O1", "-w"), tmp_path / "kept.parquet"
    words = ("--tree", "--longer-than", "30ms", "--scope", "a.out:", "--json")
    answer = ask("slow", "step", *words, "-o", str(kept), "--", str(program))
    assert answer["calls"] == 50 and answer["slow"] >= 5 and answer["unknown"] == 0
    (thread,) = answer["threads"]
    (top,) = thread["calls"]
    below = {each["function"]: each["calls"] for each in top["children"]}
    assert (top["function"], top["calls"]) == ("step", answer["slow"])
    assert below == {"rest": 5, "quick": answer["slow"]}
    rested = answer["different"][0]
    assert (rested["path"], rested["calls_otherwise"]) == (["step", "rest"], 0)
    assert round(rested["calls"] * answer["slow"]) == 5 and rested["own_ns"] * answer["slow"] >= 5 * 40_000_000
    assert run_gilk("show", kept, "--tree").returncode == 0
    within = ask("slow", "down", *words, "--", str(program))
    assert (within["calls"], within["slow"]) == (1, 1), "calls within a call belong to it"
    told = run_gilk("slow", "step", *words[:-1], "--", program).stderr
    assert re.search(r"^  \+[\d.]+ms  step > rest: [\d.]+ms in itself, otherwise 0ns \(called ", told, re.MULTILINE)


def test_slow_refuses_what_has_no_meaning_without_a_tree_and_functions_that_are_not_followed(program: Path) -> None:
    done = run_gilk("slow", "waits", "--scope", "a.out:", "--", program)
    assert done.returncode == 2 and "give --tree, too" in done.stderr
    done = run_gilk("slow", "no_such", "--tree", "--scope", "a.out:", "--", program)
    assert done.returncode == 2 and "(no-such-function)" in done.stderr


def test_the_text_reports_of_questions(gilk_on_path: Environment, program: Path) -> None:
    def told(*words: str) -> str:
        return run_gilk(*words, "--", program, env=gilk_on_path).stderr

    assert re.search(r"^ +5 +200 +40  asked`given$", told("mallocs"), re.MULTILINE)
    assert "allocations 11, allocated 100692 bytes, frees 8, freed 100392 bytes\n" in told("mallocs", "--limit", "1")
    assert "and 2 rows more\n" in told("mallocs", "--limit", "1")
    assert re.search(
        r"^[\d.]+ms  thread \d+  arg0 0xc350, arg1 0x2a$", told("slow", "waits", "--longer-than", "50ms"), re.MULTILINE
    )


@pytest.mark.parametrize(("function", "hint"), [("no_such", "LIBRARY:no_such"), ("libc:no_such", "gilk scan --list")])
def test_slow_refuses_an_unknown_function(gilk_on_path: Environment, program: Path, function: str, hint: str) -> None:
    done = run_gilk("slow", function, "--", program, env=gilk_on_path)
    assert done.returncode == 2
    assert f"there is no function '{function}' (no-such-function)" in done.stderr and hint in done.stderr


def test_a_terminal_shows_when_all_probes_are_inserted(gilk_on_path: Environment, program: Path) -> None:
    """From then on nothing comes until Ctrl-C, which one has to know."""
    ours, its = os.openpty()
    with subprocess.Popen([program, "on"]) as target:
        command = ["gilk", "syscalls", "-p", str(target.pid)]
        with subprocess.Popen(command, env=gilk_on_path, stdout=subprocess.PIPE, stderr=its, text=True) as asking:
            os.close(its)
            told = b""
            while f"asking process {target.pid}; Ctrl-C ends it".encode() not in told:
                told += os.read(ours, 4096)  # it fails once gilk has ended
            asking.send_signal(signal.SIGINT)
            answer, _ = asking.communicate(timeout=PATIENCE)
        target.kill()
    os.close(ours)
    # on a busy machine the program may have made no system call until then
    assert re.search(r"^calls .*system call$|^nothing of that kind has happened$", answer, re.MULTILINE)
    assert asking.returncode == 0


#: The last ones take everything out as the first two do.
QUESTIONS = (["mallocs"], ["offcpu"], ["syscalls"], ["locks"], ["slow", "waits"])


#: The command, which gets the signal NUMBER when it comes to MOMENT, a method of the consumer of its D program.
INTERRUPTED = """
import os, sys
from gilk.engines.dtrace.consumer import Consumer
moment = os.environ["MOMENT"]
whole = getattr(Consumer, moment)
def interrupted(self, *given):
    os.kill(os.getpid(), int(os.environ["NUMBER"]))
    return whole(self, *given)
setattr(Consumer, moment, interrupted)
from gilk.cli.main import run
sys.exit(run())
"""


def interrupted(environment: Environment, words: list[str], moment: str, number: int) -> tuple[int, str]:
    """The exit status and the standard output."""
    told = {**environment, "MOMENT": moment, "NUMBER": str(int(number))}
    command = [sys.executable, "-c", INTERRUPTED, *words]
    done = subprocess.run(command, env=told, stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE)
    return done.returncode, done.stdout


@pytest.mark.parametrize("question", seldom(QUESTIONS, 1))
def test_ctrl_c_leaves_the_program_as_it_was(gilk_on_path: Environment, program: Path, question: list[str]) -> None:
    """All probes are in when it comes."""
    with subprocess.Popen([program, "on"]) as target:
        try:
            words = [*question, "--json", "-p", str(target.pid)]
            status, told = interrupted(gilk_on_path, words, "happenings", signal.SIGINT)
            assert status == 0 and json.loads(told.splitlines()[-1])["restored"] is True
            assert target.poll() is None and "memfd:gilk" not in Path(f"/proc/{target.pid}/maps").read_text()
        finally:
            target.kill()


@pytest.mark.parametrize(("number", "status"), seldom([(signal.SIGINT, 130), (signal.SIGTERM, 143)], 1))
@pytest.mark.parametrize("moment", ["compile", "start"])
def test_a_signal_during_planning_ends_a_question_at_once(
    gilk_on_path: Environment, program: Path, moment: str, number: int, status: int
) -> None:
    """Then there is no answer, as nothing was counted. It waited until all was compiled and planned."""
    with subprocess.Popen([program, "on"]) as target:
        try:
            words = ["syscalls", "--json", "-p", str(target.pid)]
            assert interrupted(gilk_on_path, words, moment, number) == (status, "")
            assert wait_for(lambda: not leftovers(target.pid)) and not differences(target.pid)
            assert target.poll() is None
        finally:
            target.kill()


def test_ctrl_c_before_the_program_begins_ends_that_too(gilk_on_path: Environment, program: Path) -> None:
    """Though the first Ctrl-C is a launched program's own affair, once it runs."""
    words = ["mallocs", "--json", "--", str(program)]
    assert interrupted(gilk_on_path, words, "start", signal.SIGINT) == (130, "")


def test_for_limits_the_time_of_a_question(gilk_on_path: Environment, program: Path) -> None:
    with subprocess.Popen([program, "on"]) as target:
        try:
            done = run_gilk("syscalls", "--for", "300ms", "--json", "-p", str(target.pid), env=gilk_on_path)
            assert by_name(json.loads(done.stdout))["clock_nanosleep"]["calls"] > 0
        finally:
            target.kill()


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["syscalls"], "no-target"),
        (["syscalls", "-p", "1", "--", "true"], "no-target"),
        (["offcpu"], "no-target"),
        (["offcpu", "--longer-than", "0", "-p", "1"], "usage"),
        (["slow", "nosuch", "--", "true"], "no-such-function"),
        (["slow", "a:b:c", "--", "true"], "bad-point"),
        (["mallocs", "--for", "soon", "-p", "1"], "usage"),
    ],
)
def test_questions_with_bad_options_are_refused(gilk_on_path: Environment, words: list[str], slug: str) -> None:
    done = run_gilk(*words, env=gilk_on_path)
    assert done.returncode == 2 and f"({slug})" in done.stderr

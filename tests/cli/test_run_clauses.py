# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks, conditions, slow calls, USDT probes and system calls in `gilk run`: their counts agree with the program's
source, with gdb's view of its stack, and with strace."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import UsageError
from gilk.render import stacks as drawn
from gilk.runs.clause_request import parse
from gilk.spec.conditional import NamedPoint
from gilk.spec.point import Spec
from gilk.trace.stacks import CountedStack, by_path
from tests.behaviour.harness import Loop, differences, run_gilk
from tests.programs.build import build, compile_text

PROGRAM = r"""
#include <stdlib.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
#define USED(p) asm volatile("" :: "r"(p) : "memory")
APART long step(long n) { if (n % 10 == 3) usleep(20000); USED(n); return 2 * n; }
APART void *take(long n) { void *p = malloc(n); USED(p); return p; }
APART void few(void) { free(take(5000)); USED(1); }
APART void many(void) { free(take(16)); USED(2); }
int main(void) {
    for (long i = 0; i < 30; i++) { step(i); many(); if (i % 3 == 0) few(); }
    write(1, "ready\n", 6);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("clauses"), "steps", PROGRAM, "-O2", "-g", "-fomit-frame-pointer", "-w")


def report(*words: object) -> dict[str, Any]:
    done = run_gilk("run", "--json", *map(str, words))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["restored"] is True and not found["partial"] and not found["drops"], found
    return found


def functions(stack: dict[str, Any]) -> list[str]:
    return [frame.partition("`")[2].partition("+")[0] for frame in stack["frames"]]


def test_conditions_and_instruments_count_what_the_source_does(program: Path, tmp_path: Path) -> None:
    """Other instruments are in the same run; a path of functions is that of the source, without frame pointers."""
    folded = tmp_path / "s.folded"
    found = report(
        "-i", "libc:malloc:entry/arg0 == 5000/=stack", "-i", "take:entry/arg0 < 100/=count", "-i", "take:entry=count",
        "-i", "step:entry/args[0] >= 25/=args", "-i", "step:return/arg1 == 58/=count", "-i", "step:entry=stack",
        "-i", 'libc:write:entry/copyinstr(arg1) == "ready\\n"/=count', "--stacks", folded, "--", program,
    )  # fmt: skip
    counts = found["counts"]
    assert counts.pop("steps:take:entry") == 40 and counts.pop("steps:take:entry/arg0 < 100/") == 30
    assert sum(count for name, count in counts.items() if name.endswith("/arg1 == 58/")) == 1
    assert next(count for name, count in counts.items() if "copyinstr" in name) == 1
    assert found["records"] == 5
    of_malloc = next(one for one in found["stacks"] if "malloc" in one["point"])
    assert of_malloc["count"] == 10 and functions(of_malloc)[:4] == ["malloc", "take", "few", "main"]
    of_step = [one for one in found["stacks"] if "step" in one["point"]]
    assert [one["count"] for one in of_step] == [30] and functions(of_step[0])[:2] == ["step", "main"]
    lines = dict(line.rsplit(" ", 1) for line in folded.read_text().splitlines())
    assert {path.rpartition("main;")[2]: number for path, number in lines.items()} == {
        "steps`few;steps`take;libc.so.6`malloc": "10", "steps`step": "30",
    }  # fmt: skip


def test_a_recorded_stack_is_the_one_that_gdb_shows(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "gdb.txt"
    script.write_text("set pagination off\nbreak malloc if $rdi == 5000\nrun\nbacktrace\nkill\n")
    words = ["gdb", "-nx", "-batch", "-x", str(script), str(program)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False).stdout
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+)", told, re.MULTILINE)
    (stack,) = report("-i", "libc:malloc:entry/arg0 == 5000/=stack", "--", program)["stacks"]
    mine = functions(stack)
    assert frames[0].endswith("malloc") and mine[0] == "malloc"  # this function has several names
    assert mine[1 : len(frames)] == frames[1:] == ["take", "few", "main"]


def test_calls_longer_than_a_limit_are_those_that_sleep(program: Path, tmp_path: Path) -> None:
    """Three of thirty calls sleep; on a loaded machine others may take as long."""
    file = tmp_path / "slow.parquet"
    found = report(
        "-i", "step:entry=time", "-i", "step:entry=stack", "--longer-than", "19ms", "-o", file, "--", program
    )  # fmt: skip
    (histogram,) = found["latency"].values()
    assert histogram["count"] >= 3
    (stack,) = found["stacks"]
    assert stack["count"] >= 3 and functions(stack)[:2] == ["step", "main"]
    assert found["records"] == 2 * histogram["count"]


def test_calls_are_timed_under_a_condition(program: Path) -> None:
    """Two of the calls with 10 to 29 sleep for 20 ms."""
    found = report("-i", "step:entry/arg0 >= 10/=time", "--", program)
    (histogram,) = found["latency"].values()
    assert (histogram["count"], found["records"], found["notes"]) == (20, 40, [])
    assert sum(count for least, count in histogram["buckets"] if least >= 1 << 24) >= 2
    assert histogram["total"] >= 40_000_000


def test_system_calls_are_those_that_strace_sees(program: Path, tmp_path: Path) -> None:
    """This includes the calls of programs that are followed."""
    command = ["sh", "-c", f"{program} > /dev/null; {program}"]
    log = tmp_path / "strace.txt"
    words = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=write,clock_nanosleep", *command]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    seen = log.read_text()
    found = report("--follow", "-i", "syscall:write=count", "-i", "syscall:clock_nanosleep=time", "--", *command)
    assert found["counts"]["syscall:write:entry"] == len(re.findall(r" write\(", seen)) == 2
    assert found["latency"]["clock_nanosleep"]["count"] == len(re.findall(r" clock_nanosleep\(", seen)) == 6


def test_usdt_probes_of_a_running_process() -> None:
    """A plain instrument and a condition are in the same run; afterwards the code is what it was."""
    with Loop([build("marked")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "--every", "20ms", "-p", str(loop.pid)]
        words += ["-i", "usdt:*:*=count", "-i", "main:entry=count", "-i", "usdt:*:*/1 == 2/=args"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            fired = next(period for line in running.stdout if (period := json.loads(line)["counts"]))
            running.send_signal(signal.SIGINT)
            *_, last = running.stdout
        found = json.loads(last)
        assert not differences(loop.pid)
    assert found["restored"] is True and found["records"] == 0
    assert fired and all(name.startswith("usdt:") for name in fired)
    assert all(found["counts"][name] >= count for name, count in fired.items())


@pytest.mark.parametrize(
    "insert, slug",
    [
        ("step:entry/arg0 >/=count", "bad-condition"), ("step:entry/nothing > 1/=count", "bad-condition"),
        ("step:entry/1)/ {exit(0);} BEGIN/(1/=count", "bad-condition"), ("step:entry//=count", "bad-condition"),
        ("usdt:none:none=count", "no-such-probe"), ("syscall:nothing=count", "no-such-probe"),
        ("syscall:read:entry:x=count", "bad-point"), ("usdt:only=count", "bad-point"),
        ("kernel:vfs_read:entry=stack", "no-clause-there"), ("step:entry/1/=a.c:f", "no-clause-there"),
        ("usdt:a:b=time", "time-at-entry"), ("step:return/1/=time", "time-at-entry"),
        ("nothing:entry=stack", "no-such-function"),
    ],
)  # fmt: skip
def test_bad_conditions_and_points_are_refused(program: Path, insert: str, slug: str) -> None:
    done = run_gilk("run", "-i", insert, "--", program)
    assert done.returncode and f"({slug})" in done.stderr and "ready" not in done.stdout


@pytest.mark.parametrize(
    "words, slug",
    [(("--stacks", "a.svg"), "bad-stacks"), (("--stacks", "a.png"), "bad-stacks"), (("--longer-than", "1s"), "usage")],
)
def test_options_that_need_another_option_are_refused_alone(words: tuple[str, str], slug: str) -> None:
    done = run_gilk("run", "-i", "main:entry=count", *words, "--", "true")
    assert done.returncode == 2 and f"({slug})" in done.stderr


def test_conditions_are_recognised_after_points_with_paths() -> None:
    found = parse("src/a.c:12/arg0 / 2 > 1/=count")
    assert found is not None and (found.where, found.condition) == (Spec("", "src/a.c", "12"), "arg0 / 2 > 1")
    named = parse("syscall:read=time", 1000)
    assert named is not None and named.where == NamedPoint("syscall", "", "read", "entry")
    assert named.label("syscall:read:entry") == "syscall:read:entry longer than 1us"
    assert parse("main:entry=count") is None and parse("main:entry=time") is None and parse("main=@path") is None
    with pytest.raises(UsageError, match=r"is not"):
        parse("a/b/=count")


def test_a_flame_graph_has_each_path_once() -> None:
    stacks = [
        CountedStack("p", ("i`c+0x1", "i`b+0x2", "i`a"), 3), CountedStack("p", ("i`c+0x9", "i`b+0x4", "i`a"), 2),
        CountedStack("p", ("i`d;e", "i`a+0x1"), 5),
    ]  # fmt: skip
    assert by_path(stacks) == {("i`a", "i`b", "i`c"): 5, ("i`a", "i`d;e"): 5}
    assert list(drawn.folded(stacks)) == ["i`a;i`b;i`c 5\n", "i`a;i`d:e 5\n"]
    picture = drawn.flame(stacks, "t")
    assert re.findall(r'data-w="([\d.]+)" data-d="(\d)" data-n="([^"]+)"', picture) == [
        ("1200.0000", "0", "all, 10 stacks"), ("600.0000", "3", "c"), ("600.0000", "2", "b"), ("600.0000", "2", "d;e"),
        ("1200.0000", "1", "a"),
    ]  # fmt: skip

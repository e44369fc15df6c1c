# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk offcpu``: its waits are those of the program's source, and agree with strace's calls and the kernel's
counts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gilk.trace.d.question import StackRow
from gilk.trace.d.waits import by_caller, caller
from tests.behaviour.harness import run_gilk
from tests.behaviour.waiting import wait_for
from tests.programs.build import compile_text

Environment = dict[str, str]
#: Each wait lasts until its time is over, as nothing ends it before.
PROGRAM = r"""
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
#define USED(p) asm volatile("" :: "r"(p) : "memory")
static sem_t never;
APART void sleeps(int n) { for (int i = 0; i < n; i++) { usleep(20000); USED(i); } }
APART void polls(void) { for (int i = 0; i < 5; i++) { poll(0, 0, 3); USED(i); } }
APART void locked_out(void) {
    for (int i = 0; i < 4; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000;
        if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
        sem_timedwait(&never, &until); USED(i);
    }
}
APART void *aside(void *p) { sleeps(3); USED(p); return p; }
int main(int count, char **words) {
    pthread_t t;
    sem_init(&never, 0, 0);
    if (count > 1 && words[1][0] == 'r') { puts("ready"); fflush(stdout); getchar(); return 0; }
    do { sleeps(7); polls(); locked_out(); } while (count > 1);
    pthread_create(&t, 0, aside, 0); pthread_join(t, 0);
    return 3;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("waits"), "idle", PROGRAM, "-O1", "-w")


def ask(environment: Environment, *words: object) -> Any:
    done = run_gilk("offcpu", "--json", *map(str, words), env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def voluntary(pid: int) -> int:
    return sum(
        int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.MULTILINE)[0])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
    )


def test_waits_are_those_in_the_source_and_in_strace(gilk_on_path: Environment, program: Path) -> None:
    answer = ask(gilk_on_path, "--", program)
    assert answer["notes"] == [] and not answer["partial"]
    rows = {(row["name"], row["call"]): row for row in answer["rows"]}
    sleeps, polls = rows["idle`sleeps", "clock_nanosleep"], rows["idle`polls", "poll"]
    locked_out = rows["idle`locked_out", "futex"]
    assert (sleeps["waits"], polls["waits"], locked_out["waits"]) == (10, 5, 4)
    # A sleep is never shorter than requested, except for some us in which the thread has a processor.
    assert sleeps["time"] >= 10 * 19_000_000 and sleeps["longest"] >= 19_000_000 and polls["time"] >= 5 * 2_000_000
    assert answer["rows"][0] is rows[max(rows, key=lambda key: rows[key]["time"])]
    command = ["strace", "-f", "-e", "trace=clock_nanosleep,poll,futex", program]
    told = subprocess.run(command, capture_output=True, text=True).stderr
    calls = [len(re.findall(rf"{call}", told)) for call in (r"\bclock_nanosleep\(", r"\bpoll\(", "ETIMEDOUT")]
    assert calls == [10, 5, 4]


def test_stacks_lead_to_the_waiting_call(gilk_on_path: Environment, program: Path) -> None:
    answer = ask(gilk_on_path, "--depth", "9", "--", program)
    found = [
        ([re.sub(r"^.*`|\+0x\w+$", "", frame) for frame in stack["stack"]], stack["waits"])
        for stack in answer["stacks"]
        if stack["call"] == "clock_nanosleep"
    ]
    by_way = {"aside" if "aside" in frames else "main": (frames, waits) for frames, waits in found}
    assert len(found) == 2 and (by_way["main"][1], by_way["aside"][1]) == (7, 3)
    assert by_way["main"][0][:5] == ["clock_nanosleep", "nanosleep", "usleep", "sleeps", "main"]
    assert by_way["aside"][0][3:5] == ["sleeps", "aside"]


@pytest.mark.stress
def test_longer_than_leaves_out_short_waits(gilk_on_path: Environment, program: Path) -> None:
    """No wait in poll or futex takes that long, unless the machine stands still for a minute."""
    answer = ask(gilk_on_path, "--longer-than", "1min", "--", program)
    assert answer["rows"] == [] and answer["stacks"] == []


def test_context_switches_of_a_running_process_agree_with_the_kernel(gilk_on_path: Environment, program: Path) -> None:
    with subprocess.Popen([program, "on"]) as target:
        try:
            before = voluntary(target.pid)
            answer = ask(gilk_on_path, "-p", target.pid, "--for", "500ms")
            assert 0 < answer["counted"]["voluntary"] <= voluntary(target.pid) - before
            assert answer["counted"]["threads"] == 1 and answer["counted"]["faults"] >= 0 and answer["restored"] is True
            ran, delay = answer["counted"]["ran"], answer["counted"]["delay"]
            assert ran is None or (ran > 0 and delay >= 0)
        finally:
            target.kill()


def test_a_wait_that_does_not_end_is_reported(gilk_on_path: Environment, program: Path) -> None:
    with subprocess.Popen([program, "read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout is not None and target.stdout.readline() == "ready\n"
            in_read = Path(f"/proc/{target.pid}/syscall")
            wait_for(lambda: in_read.read_text().startswith("0 "))
            answer = ask(gilk_on_path, "-p", target.pid, "--for", "100ms")
            assert answer["waiting"] == [{"tid": target.pid, "name": "idle", "call": "read"}]
            assert answer["rows"] == []
        finally:
            target.kill()


@pytest.mark.stress
def test_the_text_report_of_offcpu(gilk_on_path: Environment, program: Path) -> None:
    def told(*words: str) -> str:
        return run_gilk("offcpu", *words, "--", program, env=gilk_on_path).stderr

    rows = told()
    assert re.search(r"^ +10 +\S+s +\S+s +clock_nanosleep +idle`sleeps$", rows, re.MULTILINE)
    assert re.search(
        r"^the kernel counts \d+ waits? of \d threads?, \d+ loss(es)? of the processor", rows, re.MULTILINE
    )
    assert re.search(r"^5 waits in poll, \S+, the longest \S+\n    libc\S+`poll\+", told("--stacks"), re.MULTILINE)


def test_the_caller_that_is_shown_is_outside_of_the_c_library() -> None:
    assert caller(("libc.so.6`read+0x8", "libstdc++.so.6`get+0x9", "a`main+0x1")) == "libstdc++.so.6`get"
    assert caller(("ld-linux-x86-64.so.2`munmap+0x7", "[vdso]`x", "libc.so.6`start_thread+0x1")).startswith("ld-linux")
    assert caller(("libcurl.so.4`wait+0x10",)) == "libcurl.so.4`wait" and caller(()) == ""
    rows = by_caller(
        [
            StackRow("read", ("libc.so.6`read+0x1", "a`f+0x2"), (1, 10, 10)),
            StackRow("read", ("libc.so.6`read+0x9", "a`f+0x7"), (2, 30, 20)),
            StackRow("poll", ("libc.so.6`poll+0x9", "a`f+0x7"), (1, 50, 50)),
        ]
    )
    assert [(w.caller, w.call, w.waits, w.time, w.longest) for w in rows] == [
        ("a`f", "poll", 1, 50, 50),
        ("a`f", "read", 3, 40, 20),
    ]

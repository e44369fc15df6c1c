# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice that calls the function that it is about, ends the program, throws, overruns its stack, or does not return: it
does what the C says, and gilk ends in good order."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from gilk.targets.maps import read_maps
from tests.behaviour.harness import differences, leftovers, run_gilk

PROGRAM = r"""
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>
extern "C" {
volatile int waited, woken;
__attribute__((noinline)) long plain(long a) { __asm__ volatile(""); return 3 * a; }
__attribute__((noinline)) void thrower(void) { throw std::runtime_error("thrown"); }
}
static void handler(int) { woken = 1; }
int main(int count, char **)
{
	long sum = 0;
	std::signal(SIGUSR1, handler);
	for (int n = 1; n <= 3; n++) sum += plain(n);
	std::printf("%ld\n", sum);
	std::fflush(stdout);
	for (long n = 1; count > 1; n++) {
		plain(n);
		usleep(1000);
		if (woken) { std::puts("on"); std::fflush(stdout); }
	}
	return 5;
}
"""
HEAD = """%{ #include <stdlib.h>
#include <unistd.h>
extern long plain(long a);
extern void thrower(void);
extern volatile int waited, woken;
static long deep(long n) { volatile char room[4096]; room[0] = (char)n; return deep(n + 1) + room[0]; } %}
"""
#: The advice, the status with which the program ends, and its output.
CASES = {
    "calls itself": ("inplace { return a >= 3 ? proceed() : plain(a + 1); }", 5, "24\n"),
    "exits": ("{ if (a == 2) exit(7); }", 7, ""),
    "exits in place": ("inplace { if (a == 2) exit(7); return proceed(); }", 7, ""),
    "throws": ("{ if (a == 2) thrower(); }", 128 + signal.SIGABRT, ""),
    "throws in place": ("inplace { if (a == 2) thrower(); return proceed(); }", 128 + signal.SIGABRT, ""),
    "throws after": ("after { if (a == 2) thrower(); }", 128 + signal.SIGABRT, ""),
    "overruns its stack": ("{ if (a == 2) report(\"%ld\", deep(a)); }", 128 + signal.SIGSEGV, ""),
    "overruns its stack in place": (
        "inplace { if (a == 2) return deep(a); return proceed(); }", 128 + signal.SIGSEGV, ""
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bad")
    (place / "bad.cc").write_text(PROGRAM)
    subprocess.run(["g++", "-O1", "-rdynamic", "-o", "bad", "bad.cc"], cwd=place, check=True)
    return place / "bad"


def woven(place: Path, advice: str) -> Path:
    (place / "bad.aspect").write_text(f"{HEAD}call(long plain(long a)) then {advice};\n")
    return place / "bad.aspect"


@pytest.mark.parametrize("name", CASES)
def test_bad_advice_ends_the_program_as_its_c_does_and_the_weaver_in_good_order(
    program: Path, tmp_path: Path, name: str
) -> None:
    advice, status, output = CASES[name]
    done = run_gilk("weave", woven(tmp_path, advice), "--", program, timeout=200)
    assert (done.returncode, done.stdout) == (status, output), done.stderr
    assert re.search(r"^process \d+: 1 function, restored$", done.stderr, re.MULTILINE)
    if name == "calls itself":
        assert "2 calls by advice itself" in done.stderr


def test_memory_stays_for_a_thread_that_is_in_a_call_made_by_advice(program: Path, tmp_path: Path) -> None:
    """gilk waits for the thread for half a minute. When the call ends at last, the program goes on."""
    file = woven(tmp_path, "{ if (!waited) { waited = 1; while (!woken) pause(); } }")
    with subprocess.Popen([program, "on"], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "18\n"
            done = run_gilk("weave", file, "-p", running.pid, "--for", "500ms", timeout=300)
            assert done.returncode == 0 and "memory stays mapped" in done.stdout, done.stdout
            os.kill(running.pid, signal.SIGUSR1)
            assert running.stdout.readline() == "on\n"
            assert running.poll() is None
        finally:
            running.kill()


def test_aspects_for_which_there_is_no_memory_are_refused(program: Path, tmp_path: Path) -> None:
    """The process may have one more megabyte of addresses; the stacks of advice alone take more."""
    with subprocess.Popen([program, "on"], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "18\n"
            taken = sum(each.end - each.start for each in read_maps(running.pid))
            resource.prlimit(running.pid, resource.RLIMIT_AS, (taken + (1 << 20), resource.RLIM_INFINITY))
            done = run_gilk("weave", woven(tmp_path, "{ }"), "-p", running.pid, "--for", "200ms", timeout=300)
            assert done.returncode != 0 and "(refused-by-kernel)" in done.stderr, done.stderr
            assert "ulimit -v unlimited" in done.stderr
            assert not differences(running.pid) and not leftovers(running.pid)
            os.kill(running.pid, signal.SIGUSR1)
            assert running.stdout.readline() == "on\n"
        finally:
            running.kill()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Destructive actions, and variables that come from the kernel, in a process that reports their effects."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.harness import differences, leftovers, run_gilk, wait_for
from tests.programs.build import compile_text

#: Calls hot() 100 times; with an argument until it is killed. Prints how often its handler ran, how often not at the
#: point where the signal was raised, what its CPU time was before and after the call 7, how long that took, and memory.
PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char buffer[64] = "untouched";
static const char constant[8] = "constant";
static volatile int got, elsewhere;
static volatile long self, at;

static long now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void handler(int n) { got++; elsewhere += syscall(SYS_gettid) != self || (n == SIGUSR1 && at % 10); }

__attribute__((noinline, noclone)) long hot(long x, char *p, const char *c)
{
	__asm__ volatile("" : : "r"(p), "r"(c) : "memory");
	return x;
}

int main(int argc, char **argv)
{
	long from, to, begin, took;
	(void)argv;
	self = syscall(SYS_gettid);
	signal(SIGUSR1, handler);
	for (at = 0; at < 100 || argc > 1; at++) {
		from = now(CLOCK_THREAD_CPUTIME_ID);
		begin = now(CLOCK_MONOTONIC);
		hot(at, buffer, constant);
		took = now(CLOCK_MONOTONIC) - begin;
		to = now(CLOCK_THREAD_CPUTIME_ID);
		if (at == 7) printf("cpu %ld %ld took %ld\n", from, to, took);
		if (argc > 1) usleep(1000);
	}
	printf("got %d elsewhere %d %s\n", got, elsewhere, buffer);
	return 0;
}
"""
HOT = "pid$target:a.out:hot:entry"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("deeds"), "deeds", PROGRAM, "-O1")


def test_destructive_actions_take_effect_at_the_probe(program: Path, tmp_path: Path) -> None:
    text = f"""
        {HOT} /arg0 % 10 == 0/ {{ raise(SIGUSR1); }}
        {HOT} /arg0 == 7/ {{ copyoutstr("written", arg1, 32); chill(20000000);
            printf("cpu %d %d\\n", vtimestamp, vtimestamp); printf("in %s of %s\\n", cwd, root);
            printf("%d %d %d\\n", euid, egid, ipl);
            printf("at %A %a\\n", uregs[R_RIP], uregs[R_RIP] + 1); sym(uregs[R_RIP]); }}
        {HOT} /arg0 == 8/ {{ copyout(copyin(arg1, 4), arg1 + 7, 4); copyoutstr("ten", arg1 + 11, 3); }}
        {HOT} /arg0 == 9/ {{ copyoutstr("x", arg2, 2); }}"""
    done = run_gilk("dtrace", "-w", "-q", "-n", text, "-c", shlex.quote(str(program)), cwd=tmp_path, timeout=120)
    assert done.returncode == 0
    assert re.fullmatch(
        r"dtrace: error in dt_clause_3 for probe ID \d+ \(.*:hot:entry\): invalid address \(0x\w+\)\n", done.stderr
    )
    (first, last, took), (seen, again) = (
        [int(word) for word in found]
        for found in (
            re.findall(r"cpu (\d+) (\d+) took (\d+)", done.stdout)[0],
            re.findall(r"cpu (\d+) (\d+)$", done.stdout, re.M)[0],
        )
    )
    assert first <= seen <= last
    assert seen == again
    assert took >= 20_000_000
    assert "got 10 elsewhere 0 writtenwritten" in done.stdout
    assert re.search(r"^at deeds`hot deeds`hot\+0x1\n  0x[0-9a-f]+ *$", done.stdout, re.M)
    assert f"in {tmp_path} of /\n{os.geteuid()} {os.getegid()} 0\n" in done.stdout


def test_stop_stops_the_process_and_not_the_consumer(program: Path) -> None:
    with subprocess.Popen([program, "long"], stdout=subprocess.DEVNULL) as child:
        text = f"""int n; {HOT} /!n/ {{ n = 1; printf("before\\n"); stop(); printf("with it\\n"); }}
            tick-100ms /n/ {{ printf("tick\\n"); n++; }} tick-100ms /n > 3/ {{ exit(3); }}"""
        done = run_gilk("dtrace", "-w", "-q", "-n", text, "-p", str(child.pid), timeout=120)
        assert (done.returncode, done.stderr) == (3, "")
        assert done.stdout == "before\nwith it\n" + 3 * "tick\n" + "\n"
        assert _state(child.pid) == "T"
        assert (differences(child.pid), leftovers(child.pid)) == ([], [])
        child.send_signal(signal.SIGCONT)
        assert wait_for(lambda: _state(child.pid) != "T")
        child.kill()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_copyout_writes_no_more_than_the_length_of_the_string(program: Path) -> None:
    """The program prints its memory."""
    text = f"""
        {HOT} /arg0 == 7/ {{ copyoutstr("abcdefgh", arg1, 32); }}
        {HOT} /arg0 == 8/ {{ s = "XYZ"; copyout(s, arg1, 2); }}
        {HOT} /arg0 == 9/ {{ copyout(s, arg1, 1000000); }}"""
    done = run_gilk("dtrace", "-w", "-q", "-n", text, "-c", shlex.quote(str(program)), timeout=120)
    assert re.fullmatch(r"dtrace: error in dt_clause_2 for probe ID \d+ \(.*:entry\): invalid size.*\n", done.stderr)
    assert "elsewhere 0 XYcdefgh\n" in done.stdout

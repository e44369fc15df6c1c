# SPDX-License-Identifier: LGPL-2.1-or-later
"""The actions of a process on itself and on others: they are seen as often as calls.c says that it does them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from tests.programs.build import build
from tests.providers.sessions import traced

_PROGRAM = """
    proc:::create, proc:::lwp-create, proc:::exit, proc:::lwp-exit { @[strjoin(probename, "")] = count(); }
    proc:::exit { @s["statuses"] = sum(arg0); }
    proc:::create /arg0 > 1 && pid == $target/ { @c["a child"] = count(); }
    proc:::exit /pid != $target/ { @e["its end"] = count(); }"""
_EXECUTING = """
    proc:::exec { @[copyinstr(arg0)] = count(); }
    proc:::exec-failure { @f["failed"] = sum(arg0); }"""


def test_proc_probes_fire_for_threads_and_children() -> None:
    """Four threads, and a child that ends before the program does."""
    assert traced(_PROGRAM, build("calls"), "10").numbers() == {
        "create": 1, "lwp-create": 4, "lwp-exit": 4, "exit": 2, "statuses": 2, "a child": 1, "its end": 1
    }  # fmt: skip


SIGNALS = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void handler(int number) { (void)number; }
static void *thread(void *none) { return none; }
int main(void)
{
	sigset_t set;
	pthread_t other;
	pid_t child;
	int taken, ends[2];

	signal(SIGUSR1, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	for (int i = 0; i < 5; i++)
		kill(getpid(), SIGUSR1);
	raise(SIGUSR1);
	sigqueue(getpid(), SIGUSR2, (union sigval){ 0 });
	if (sigwait(&set, &taken) || taken != SIGUSR2)
		return 1;
	for (int i = 0; i < 3; i++)
		pthread_create(&other, 0, thread, 0), pthread_join(other, 0);
	syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
	kill(getpid(), 0);          /* none is sent */
	if (!kill(1999999999, SIGTERM) || !kill(getpid(), 99))
		return 2;
	if (pipe(ends))
		return 3;
	child = fork();
	if (!child) {
		close(ends[1]);
		close(ends[0]);
		pause();
		_exit(0);
	}
	close(ends[1]);
	if (read(ends[0], ends, 1))
		return 4; /* it has begun when it has closed the other end */
	printf("%d\\n", child);
	fflush(stdout);
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	return 0;
}
"""
SENT = """
    proc:::signal-send { @[arg2] = count(); }
    proc:::signal-send /arg1 != $target/ { printf("to %d %d\\n", arg0, arg2); }
    proc:::signal-clear { @cleared[arg0] = count(); }
    proc:::start { printf("started %d %d\\n", arg0, pid); } proc:::lwp-start /arg0 == tid/ { @s["threads"] = count(); }
"""


def test_proc_probes_fire_for_signals_sent_and_handled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "signals.c").write_text(SIGNALS)
    subprocess.run(["gcc", "-Wall", "-O1", "-pthread", "signals.c", "-o", "signals"], cwd=tmp_path, check=True)
    done = traced(SENT, tmp_path / "signals")
    child = int(capfd.readouterr().out)
    usr1, usr2, killed = int(signal.SIGUSR1), int(signal.SIGUSR2), int(signal.SIGKILL)
    assert sorted(line.split() for line in done.lines) == sorted(
        line.split() for line in (
            f"started {child} {child}", f"to {child} {killed}", f"{usr1} 7", f"{usr2} 1", f"{killed} 1", f"{usr2} 1",
            "threads 3",
        )
    )  # fmt: skip
    assert (done.refused, done.errors) == ({}, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("proc:::exec-success", "a program that is executed has no probes"),
        ("proc:::signal-discard", "the kernel that discards"),
        ("proc:::signal-handle", "where handlers are is not known"),
        ("sched:::on-cpu", "it is about a kernel: load the driver"),
    ],
)
def test_unavailable_proc_probes_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(NoSuchProbe, match=f"{text} does not match any probes: .*{why}"):
        traced(text, "true")


@pytest.mark.stress
def test_proc_probes_fire_for_executed_programs() -> None:
    done = traced(_EXECUTING, "sh", "-c", "/nonexistent; /bin/true; exit 0")
    assert done.numbers() == {"/nonexistent": 1, "/bin/true": 1, "failed": 2}

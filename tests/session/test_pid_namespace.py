# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process in a PID namespace of its own, as in a container: gilk finds its threads by their numbers outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import gilk
from gilk.targets.inner_threads import gone_of
from gilk.targets.namespaces import foreign, is_here, own_number
from tests.behaviour.harness import differences, wait_for
from tests.programs.build import compile_text
from tests.providers.sessions import traced

#: Two threads call hot() for ever, one of them without a pause, and so does a child that is forked for each line of
#: input. All print their numbers; none of these are small, so that they differ from those of processes outside.
PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline, noclone)) long hot(long x) { __asm__ volatile("" ::: "memory"); return x; }

static void *nothing(void *x) { return x; }

static void *body(void *pause)
{
	prctl(PR_SET_NAME, pause ? "pausing" : "spinning");
	printf("%s %ld\n", pause ? "pausing" : "spinning", syscall(SYS_gettid));
	fflush(stdout);
	for (;;) {
		hot(1);
		if (pause) usleep(1000);
	}
	return 0;
}

int main(void)
{
	pthread_t thread;
	char line;
	for (int i = 0; i < 1500 && !pthread_create(&thread, 0, nothing, 0); i++) pthread_join(thread, 0);
	pthread_create(&thread, 0, body, 0);
	pthread_create(&thread, 0, body, "");
	printf("process %d\n", getpid());
	fflush(stdout);
	while (read(0, &line, 1) == 1) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			body("");
		}
	}
	return 0;
}
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


@dataclass
class Contained:
    """A process in its namespace. ``pid`` is its number outside; ``numbers`` are those that it prints for itself and
    its threads."""

    pid: int
    numbers: dict[str, int]
    process: subprocess.Popen[str]

    def fork(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("f")
        self.process.stdin.flush()

    def fork_when_traced(self) -> None:
        """Have the process fork once probes are in and its threads have run with them for a while."""
        wait_for(lambda: bool(differences(self.pid)))
        time.sleep(1)
        self.fork()


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Contained]:
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a PID namespace")
    program = compile_text(tmp_path, "contained", PROGRAM, "-O1")
    process = subprocess.Popen([*UNSHARE, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        numbers = {name: int(number) for name, number in (process.stdout.readline().split() for _ in range(3))}
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield Contained(int(children), numbers, process)
    finally:
        process.kill()
        process.communicate()


def test_pids_inside_and_outside_of_the_namespace(contained: Contained) -> None:
    assert contained.numbers["process"] == own_number(contained.pid) != contained.pid
    assert foreign(contained.pid) == foreign(contained.process.pid) != foreign(os.getpid()) == frozenset()
    assert (is_here(contained.pid), is_here(contained.process.pid)) == (False, True)
    tids = {own_number(int(entry.name)) for entry in Path(f"/proc/{contained.pid}/task").iterdir()}
    assert tids == set(contained.numbers.values())


@pytest.mark.stress
def test_threads_in_a_namespace_keep_their_variables(contained: Contained) -> None:
    """The threads keep their self-> variables, which samples find too. `pid` is the number outside, `tid` the one
    inside."""
    threading.Thread(target=contained.fork_when_traced).start()
    done = traced(
        """#pragma D option cleanrate=50ms
        #pragma D option switchrate=50ms
        pid$target:a.out:hot:entry { self->calls++; }
        pid$target:a.out:hot:entry /self->calls == 1/ { @first[tid, pid == $target] = count(); }
        pid$target:a.out:hot:entry /self->calls == 1 && pid != $target/ { child = 1; }
        profile-97 /self->calls/ { @sampled[tid, pid == $target] = count(); sampled++; }
        tick-1s { seconds++; }
        tick-1s /seconds >= 3 && child && sampled > 20/ { exit(0); }
        END { printa("first %d %d %@d\\n", @first); printa("sampled %d %d %@d\\n", @sampled); }""",
        pid=contained.pid,
    )
    assert contained.process.stdout
    child = int(contained.process.stdout.readline().split()[1])
    spinning, pausing = contained.numbers["spinning"], contained.numbers["pausing"]
    rows = [line.split() for line in done.lines]
    first = {(int(tid), ours): int(count) for what, tid, ours, count in rows if what == "first"}
    assert first == {(spinning, "1"): 1, (pausing, "1"): 1, (child, "0"): 1}
    assert (["sampled", str(spinning), "1"]) in [row[:3] for row in rows]
    assert done.restored is not False


def test_threads_keep_their_buffers_and_names(contained: Contained) -> None:
    with gilk.attach(contained.pid) as target, target.session() as session:
        session.insert("hot:entry", "stamp")
        contained.fork()
        assert contained.process.stdout
        child = int(contained.process.stdout.readline().split()[1])
        expected = {
            (contained.pid, contained.numbers["spinning"], "spinning"),
            (contained.pid, contained.numbers["pausing"], "pausing"),
            (child, child, "pausing"),
        }
        due, seen, born = time.monotonic() + 2, set(), set()

        def found() -> bool:
            """Whether all expected threads were seen, and there was time to see others."""
            rows = session.poll().group_by(["pid", "tid", "thread"]).aggregate([])
            seen.update((row["pid"], row["tid"], row["thread"]) for row in rows.to_pylist())
            born.update(one.birth for one in session.drain.identities())
            return seen >= expected and time.monotonic() > due

        assert wait_for(found)
        assert seen == expected
        assert len(born) == len(expected), "each has one buffer from begin to end"


def test_ended_threads_in_a_namespace_are_recognised(contained: Contained) -> None:
    gone = gone_of(contained.pid)
    assert not gone(contained.numbers["spinning"])
    assert not gone(threading.get_native_id())
    assert wait_for(lambda: gone(1499)), "a thread that ended before all others began"
    contained.process.kill()
    contained.process.wait()
    assert wait_for(lambda: gone(contained.numbers["spinning"]))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""All functions of a running program and its libraries are followed and left again, by an exchange of its code."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import gilk
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.image.lookup import spans
from tests.behaviour.harness import Loop, children, differences, wait_for
from tests.programs.build import build
from tests.programs.opener import opener

PROGRAMS = ("threads", "fork", "signals", "exceptions", "syscalls", "hot8", "dlopen", "ucontext", "sigpc", "vfork")
QUICK = ("signals",)


def files(pid: int) -> list[str]:
    """The mappings of files as the kernel lists them; they must be the same after an exchange."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "/" in line and "/memfd:" not in line and "/plugin" not in line]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.stress) for name in PROGRAMS]
)
def test_code_is_exchanged_and_put_back_again_and_again(name: str) -> None:
    with Loop([build(name)]) as loop:
        time.sleep(0.1)
        before = files(loop.pid)
        with gilk.attach(loop.pid) as target, Follower(target.process) as follower:
            functions, trouble = follower.prepare(target.images, TraceScope())
            assert not trouble
            assert follower.copy_code() >= 1, "no code was worth a copy"
            for cycle in range(6):
                follower.follow(functions)
                assert files(loop.pid) != before, "nothing was exchanged"
                assert wait_for(lambda: follower.poll().num_rows > 10)
                if cycle % 2:  # also one by one, while copies are executed
                    follower.leave(list(functions)[:: 7 + cycle])
                follower.leave()
                assert files(loop.pid) == before
        assert follower.restored is True
        assert not differences(loop.pid)
        assert loop.alive()


def test_a_library_closed_before_following_begins_is_noticed(tmp_path: Path) -> None:
    """Nothing has changed when the missing library is noticed; then all the rest is followed."""
    opens, plugin = opener(tmp_path)
    with subprocess.Popen([opens, plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:

        def switch() -> None:
            assert program.stdin is not None and program.stdout is not None
            os.write(program.stdin.fileno(), b"x")
            assert os.read(program.stdout.fileno(), 1) == b"x"

        switch()
        with gilk.attach(program.pid) as target, Follower(target.process) as follower:
            functions, _ = follower.prepare(target.images, TraceScope())
            assert follower.copy_code() >= 1
            units = follower._ledger.units(follower._keys_of(functions))
            switch()
            before = files(program.pid)
            for _ in range(2):
                with pytest.raises(gilk.TargetError) as raised:
                    target.process.keeper.change({}, units)
                assert raised.value.slug == "code-changed"
                assert files(program.pid) == before
                switch(), switch()
            follower.follow(functions)
            assert 0 < len(follower.followed) < len(functions)
            assert files(program.pid) != before
            for _ in range(4):
                switch()
            assert follower.poll().num_rows > 10
        assert follower.restored is True
        assert files(program.pid) == before
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(60) == 0


FORKS = """
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t wanted;
static void want(int number) { wanted = number; }
int main(void)
{
	signal(SIGUSR1, want);
	puts("ready");
	fflush(stdout);
	for (;;) {
		usleep(1000);
		if (wanted) {
			wanted = 0;
			fork();
		}
	}
}
"""


def test_a_child_that_forked_while_a_copy_was_executed_gets_its_code_back(tmp_path: Path) -> None:
    source = tmp_path / "forks.c"
    source.write_text(FORKS)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "forks", source], check=True)
    program = subprocess.Popen([tmp_path / "forks"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert program.stdout and program.stdout.readline()
        before = files(program.pid)
        with gilk.attach(program.pid) as target, Follower(target.process) as follower:
            functions, _ = follower.prepare(target.images, TraceScope())
            assert follower.copy_code()
            follower.follow(functions)
            program.send_signal(signal.SIGUSR1)
            assert wait_for(lambda: children(program.pid))
            (child,) = children(program.pid)
            assert wait_for(lambda: child in follower.poll()["pid"].to_pylist())
            assert files(child) != before
        assert follower.restored is True
        for pid in (program.pid, child):
            assert files(pid) == before
            assert not differences(pid)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@pytest.mark.stress  # it analyses the C library
def test_probes_inserted_while_copies_are_executed_stay_when_the_code_is_put_back() -> None:
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, Follower(target.process) as follower:
            functions, _ = follower.prepare(target.images, TraceScope())
            assert follower.copy_code()
            libc = next(image for image in target.images if image.name == "libc.so.6")
            (span,) = spans(target.process.image(libc.path), "usleep")
            follower.follow(functions)
            follower.put_gate(libc, span, "entry", 3)
            follower.leave()
            follower.gates.arm(3)
            assert follower.gates.wait(3, 10) is not None
        assert follower.restored is True
        assert not differences(loop.pid)

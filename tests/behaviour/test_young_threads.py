# SPDX-License-Identifier: LGPL-2.1-or-later
"""A thread that has just begun opens a library while its program is traced: the thread at its gate, the client and
the keeper must not wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gilk
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.image.lookup import spans
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, run_gilk, wait_for
from tests.programs.build import build

#: With its first thread the C library installs handlers for two signals; pthread_exit() makes it open libgcc_s.
OPENS = """
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
static void *young(void *nothing)
{
	(void)nothing;
#ifdef LEAVES
	pthread_exit(0);
#else
	return dlopen("libm.so.6", RTLD_NOW);
#endif
}
int main(int count, char **words)
{
	pthread_t thread;
	void *result;
	char byte;
	if (count > 1 && words && read(0, &byte, 1) != 1)
		return 1;
	if (pthread_create(&thread, 0, young, 0) || pthread_join(thread, &result))
		return 1;
	return write(1, "done\\n", 5) != 5;
}
"""
PYTHON = (
    "import threading; t = threading.Thread(target=lambda: __import__('_ctypes')); t.start(); t.join(); print('done')"
)


def opens(directory: Path, *flags: str) -> Path:
    (directory / "opens.c").write_text(OPENS)
    words = ["cc", "-O1", "-pthread", *flags, "-o", directory / "opens", directory / "opens.c", "-ldl"]
    subprocess.run(words, check=True)
    return directory / "opens"


@pytest.mark.parametrize("flags", [pytest.param((), marks=pytest.mark.stress), ("-DLEAVES",)])
def test_a_new_thread_of_a_launched_program_opens_a_library_during_a_trace(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    for _ in range(2):
        done = run_gilk("trace", "-o", tmp_path / "out.parquet", "--", opens(tmp_path, *flags), timeout=600)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.stress
def test_a_new_thread_of_python_imports_a_module_during_a_trace(tmp_path: Path) -> None:
    done = run_gilk("trace", "-o", tmp_path / "out.parquet", "--", sys.executable, "-c", PYTHON, timeout=600)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("flags", [(), pytest.param(("-DLEAVES",), marks=pytest.mark.stress)])
def test_a_new_thread_of_an_attached_program_opens_a_library_during_a_trace(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    command = [opens(tmp_path, *flags), "waits"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        words = [sys.executable, "-m", "gilk", "trace", "-q", "-p", str(program.pid), "-o", str(tmp_path / "out")]
        with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}) as client:
            try:
                assert wait_for((tmp_path / "out.partial").exists, 600)
                assert program.communicate("x", timeout=600) == ("done\n", None)
                assert client.wait(600) == 0
            finally:
                client.kill()
                program.kill()


def test_a_thread_held_at_a_gate_does_not_hold_up_changes() -> None:
    """The change is of patches in which the thread is not; the thread is still held afterwards."""
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, Follower(target.process) as follower:
            program = next(image for image in target.images if image.main)
            functions, trouble = follower.prepare([program], TraceScope())
            assert not trouble
            follower.copy_code()
            span = spans(target.process.image(program.path), "hot")[0]
            follower.put_gate(program, span, "entry", 3)
            follower.gates.arm(3, hold=60.0)
            assert follower.gates.wait(3, 60) is not None
            for _ in range(3):
                follower.follow(functions)
                follower.leave()
            assert follower.gates.reached(3) is not None
            assert follower.gates._rows[3]["frame"], "it has not waited"
            follower.gates.open(3)
            assert wait_for(lambda: not follower.gates._rows[3]["frame"])
        assert follower.restored is True
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def test_a_second_thread_at_a_gate_releases_the_first() -> None:
    """Each thread counts as waiting only while it does wait."""
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, Follower(target.process) as follower:
            program = next(image for image in target.images if image.main)
            span = spans(target.process.image(program.path), "hot")[0]
            follower.put_gate(program, span, "entry", 3)
            held = set()
            for _ in range(2_000):  # a thread whose round has just ended goes on too, and may be the next one
                follower.gates.arm(3, hold=60.0)
                reached = follower.gates.wait(3, 60)
                assert reached is not None
                held.add(reached.tid)
                if len(held) > 1:
                    break
            assert len(held) > 1, "another thread could not get there while one was held"
        assert follower.restored is True
        assert leftovers(loop.pid) == []

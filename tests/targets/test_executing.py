# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that execute another program while their process is being stopped: tests/programs/bare/execthreads.c.

A thread that executes a program waits until the ends of all traced threads of its process have been seen, and meanwhile
holds a lock that PTRACE_SEIZE takes: a keeper that seizes one thread after the other could wait for itself. Then the
thread is the first one of its process, with the number of the one that was there before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.errors import TargetError
from gilk.targets.alive import has_ended, of_memory
from gilk.targets.another_program import began_of
from gilk.targets.keeper import Keeper
from gilk.targets.kernel_threads import is_kernels_process
from gilk.targets.maps import read_maps
from gilk.targets.memory import ProcessMemory
from tests.behaviour.harness import ENVIRONMENT, Loop, gs_bases
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build
from tests.targets.keepers import kept

#: Has seized a thread when another one executes a program; then stops the process, and lets it go.
SEIZED = """
import os, sys
from gilk.targets import ptrace
from gilk.targets.world import PtracedThreads
from tests.behaviour.harness import state, wait_for
ptrace.be_told()
world, begin = PtracedThreads(int(sys.argv[1])), int(sys.argv[2])
first, other, *_, executes = ptrace.thread_ids(world.pid)
ptrace.seize(other)
world._late.add(other)
os.write(begin, b"x")
assert wait_for(lambda: state(executes) == "D"), "it waits for the tracer"
with world.stopped() as threads:
    assert list(threads) == [world.pid]
assert not world.release_late()
"""
#: Stops a process again and again, until it has been stopped a hundred times, and has been found to execute another
#: program than before twenty times. What is changed of threads must not reach the next program.
OFTEN = """
import sys
from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.another_program import began_of
from gilk.targets.memory import ProcessMemory
from gilk.targets.world import PtracedThreads
ptrace.be_told()
world, stops, others, memory = PtracedThreads(int(sys.argv[1])), 0, 0, None
while stops < 100 or others < 20:
    try:
        memory = memory or ProcessMemory(world.pid)
        with world.stopped() as threads:
            stops += 1
            others += memory.has_gone
            if not memory.has_gone:
                for thread in threads.values():
                    thread.attach_block(1 << 40)
        if memory.has_gone:
            memory.close()
            memory = None
    except TargetError as error:
        assert error.slug in ("no-such-process", "no-permission"), error
    world.release_late()
while world.release_late():
    pass
"""


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    command, pipe = [str(build("execthreads")), *words], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as made:
        try:
            assert made.stdout is not None and made.stdout.readline() == b"ready\n"
            yield made
        finally:
            made.kill()


def run(script: str, *words: str, **options: tuple[int, ...]) -> None:
    """Run a tracer to its end."""
    command = [sys.executable, "-c", script, *words]
    subprocess.run(command, env={**os.environ, **ENVIRONMENT}, timeout=PATIENCE, check=True, **options)  # type: ignore[call-overload]


def has_executed(target: subprocess.Popen[bytes]) -> bool:
    """Whether the program says that it was executed again, and comes to its end then."""
    assert target.stdin is not None and target.stdout is not None
    target.stdin.close()
    return target.stdout.readline() == b"executed\n" and target.wait(PATIENCE) == 0


def test_a_process_is_stopped_while_a_thread_executes_another_program() -> None:
    with program("3", "once") as target:
        assert target.stdin is not None
        begin = target.stdin.fileno()
        run(SEIZED, str(target.pid), str(begin), pass_fds=(begin,))
        assert has_executed(target)


def test_a_process_whose_threads_execute_programs_can_be_stopped_at_any_moment() -> None:
    with program("30", "loop") as target:
        run(OFTEN, str(target.pid))
        assert has_executed(target)


def test_a_process_is_found_while_its_threads_execute_programs() -> None:
    """A thread that executes a program takes the place of the main thread; /proc does not show either for a moment."""
    with program("3", "loop") as target:
        programs = set[int]()
        while len(programs) < 500:
            assert not has_ended(target.pid)
            ProcessMemory(target.pid).close()
            assert read_maps(target.pid)
            programs.add(began_of(target.pid).program)
        assert has_executed(target)


def test_the_mappings_of_a_process_are_those_of_a_whole_program() -> None:
    """While the kernel begins a program, one can see that its code, its loader or its vDSO is not mapped yet."""
    with Loop([build("exec")]) as loop:
        begun = set[int]()
        while len(begun) < 500:
            mapped = {mapping.path for mapping in read_maps(loop.pid) if mapping.executable}
            assert {str(build("exec").resolve()), "[vdso]"} < mapped
            begun.add(began_of(loop.pid).program)


def test_nobody_waits_for_the_memory_of_a_process_that_gets_none() -> None:
    """One that has ended, and one of the kernel's, if this machine shows any: as a command that looks at all processes
    meets hundreds, each is asked about once."""
    asked = list[int]()

    def ask(tid: int) -> None:
        asked.append(tid)
        raise FileNotFoundError

    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        pids = [ended.pid, *[pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if is_kernels(pid)]]
        for pid in pids:
            with pytest.raises(FileNotFoundError):
                of_memory(pid, ask)
    assert asked == pids


def is_kernels(pid: int) -> bool:
    try:
        return is_kernels_process(pid)
    except OSError:
        return False


def test_a_program_that_is_executed_before_a_change_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process executes it after the keeper has looked whether its memory is still there."""
    with program("1", "once") as target, kept(target.pid) as keeper:
        assert target.stdin is not None and target.stdout is not None
        with monkeypatch.context() as patch:
            patch.setattr(Keeper, "present", lambda _: True)
            target.stdin.write(b"x")
            target.stdin.flush()
            assert target.stdout.readline() == b"executed\n"
            with pytest.raises(TargetError) as raised:
                keeper.change({}, {})
        assert raised.value.slug == "no-such-process"
        assert gs_bases(target.pid) == {0}

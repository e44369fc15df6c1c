# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper is killed before each operation on a target: the target goes on, and can be restored."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pytest

import gilk
from gilk.arch.asm import JMP8, JMP32
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.errors import TargetError
from gilk.targets import ptrace, spawning
from gilk.targets.live_code import LiveCode
from gilk.targets.memory import ProcessMemory
from tests.behaviour.harness import Loop, cpu, deaf, differences, signals, state, wait_for
from tests.programs.build import build
from tests.seldom import seldom

Work = Callable[[int], None]
TRAP_FLAG = 1 << 8
STEPS = 100_000  # instructions within which each bounce of a loop is reached


def probes(pid: int) -> None:
    with gilk.attach(pid) as target, target.session() as session:
        first = session.insert("*:blocks", gilk.count)
        session.insert("*:entry", gilk.time)
        session.remove(first)


def following(pid: int) -> None:
    """Follow by an exchange of code, in programs that are large enough for that to pay."""
    with gilk.attach(pid) as target, Follower(target.process) as follower:
        functions, _ = follower.prepare([image for image in target.images if image.main], TraceScope())
        assert follower.copy_code()
        follower.expect(functions)
        follower.begin()
        follower.leave(list(functions)[::3])


def kill_before(limit: int) -> AbstractContextManager[None]:
    """In the block, a new keeper kills itself before it touches its target for the ``limit``-th time."""
    return counted(limit, [(ptrace, "call"), (ProcessMemory, "write")], before=True)


def kill_after_code(limit: int) -> AbstractContextManager[None]:
    """In the block, a new keeper kills itself after it has written code for the ``limit``-th time."""
    return counted(limit, [(LiveCode, "write")], before=False)


@contextmanager
def counted(limit: int, names: list[tuple[Any, str]], before: bool) -> Iterator[None]:
    """In the block, a forked child kills itself before or after the ``limit``-th call of these functions, each an
    (owner, name)."""
    mine, done = os.getpid(), 0

    def count() -> None:
        nonlocal done
        done += os.getpid() != mine
        if done == limit:
            os.kill(os.getpid(), signal.SIGKILL)

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any) -> Any:
            if before:
                count()
            result = function(*arguments)
            if not before:
                count()
            return result

        return instead

    kept = [(owner, name, getattr(owner, name)) for owner, name in names]
    for owner, name, function in kept:
        setattr(owner, name, guarded(function))
    try:
        yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def killed(work: Work, pid: int, killing: AbstractContextManager[None]) -> bool:
    """Do the work in a child whose keeper is killed. Returns whether the keeper was killed before the work was done."""
    child = os.fork()
    if not child:
        status = 1
        try:
            with killing:
                spawning.begin()
            try:
                work(pid)
                status = 0
            except TargetError as error:
                status = 2 if error.slug == "keeper-gone" else 1
                if status == 1:
                    print(error.slug, error, file=sys.stderr)
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, 2), ended
    return ended == 2


def stands(pid: int) -> list[str]:
    """The threads that somebody has stopped or traces."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError):
            found += [tid] if state(int(tid)) in "tT" or ptrace.tracer_of(int(tid)) else []
    return found


def goes_on(loop: Loop, what: object) -> None:
    assert wait_for(lambda: not stands(loop.pid)), what
    ticks = cpu(loop.pid)
    assert wait_for(lambda: not loop.alive() or cpu(loop.pid) > ticks), what
    assert loop.alive(), (what, loop.process.returncode)
    assert wait_for(lambda: not deaf(loop.pid)), (what, signals(loop.pid))


def kill_at(
    work: Work, program: str, limit: int, kill: Callable[[int], AbstractContextManager[None]] = kill_before
) -> bool:
    with Loop([build(program, "static" if work is following else "default")]) as loop:
        assert wait_for(lambda: cpu(loop.pid) > 0)
        made = killed(work, loop.pid, kill(limit))
        os.kill(loop.pid, signal.SIGCONT)  # some of the work stops the process
        if not made:
            return False
        goes_on(loop, limit)
        try:
            gilk.restore(loop.pid)
        except TargetError as error:
            assert error.slug == "nothing-to-restore"
        assert not differences(loop.pid), limit
        goes_on(loop, limit)
        loop.finish()
    return True


def at_a_bounce(pid: int) -> None:
    """Change code while one thread stands where a short jump has led it: at a long jump amid original instructions."""
    with gilk.attach(pid) as target, target.session() as session:
        blocks = session.insert("hot8:run:blocks", gilk.count)
        stop_at_a_bounce(pid, next(tid for tid in ptrace.thread_ids(pid) if tid != pid))
        session.remove(blocks)


def stop_at_a_bounce(pid: int, tid: int) -> None:
    """Stop the process, as from a terminal, when the thread ``tid`` stands at a bounce."""
    ptrace.seize(tid)
    ptrace.call(ptrace.INTERRUPT, tid)
    os.waitpid(tid, ptrace.WALL)
    with ProcessMemory(pid) as memory:
        before = 0
        for _ in range(STEPS):
            registers = ptrace.get_registers(tid)
            now = registers.rip
            if memory.some(before, 1) == JMP8 and memory.some(now, 1) == JMP32:
                registers.eflags &= (
                    ~TRAP_FLAG
                )  # a patch that is single-stepped saves the step's own trap flag, and restores it later
                ptrace.set_registers(tid, registers)
                ptrace.call(ptrace.DETACH, tid, 0, signal.SIGSTOP)
                return
            before = now
            ptrace.call(ptrace.SINGLESTEP, tid)
            assert os.WIFSTOPPED(os.waitpid(tid, ptrace.WALL)[1])
    raise AssertionError("no bounce is taken")


def test_the_keeper_is_killed_while_a_thread_stands_at_a_bounce() -> None:
    """The third change of code takes the patches out again."""
    assert kill_at(at_a_bounce, "hot8", 3, kill_after_code)


def test_the_keeper_is_killed_when_code_is_written() -> None:
    """Some threads stand in patches that no code leads to any more."""
    limit = 1
    while kill_at(probes, "hot8", limit, kill_after_code):
        limit += 2
    assert limit > 4


@pytest.mark.stress
def test_the_keeper_is_killed_often_when_code_is_written() -> None:
    for _ in range(100):
        test_the_keeper_is_killed_when_code_is_written()


@pytest.mark.parametrize("work", seldom([following, probes], 1))
@pytest.mark.parametrize("program", ["hot8"])
def test_the_keeper_is_killed_at_some_of_its_steps(work: Work, program: str) -> None:
    limit, number = 1, 0
    while kill_at(work, program, limit):
        number += 1
        limit += 1 + limit
    assert number > 5


@pytest.mark.stress
@pytest.mark.parametrize("work", [probes, following])
@pytest.mark.parametrize("program", ["hot8", "threads", "syscalls", "signals", "amx"])
def test_the_keeper_is_killed_at_every_one_of_its_steps(work: Work, program: str) -> None:
    limit = 1
    while kill_at(work, program, limit):
        limit += 1
    assert limit > 100

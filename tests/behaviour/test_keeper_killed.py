# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper is killed before each single thing that it does to a target: the target goes on, and can be restored."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import gilk
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.errors import TargetError
from gilk.targets import ptrace, spawning
from gilk.targets.memory import Memory
from tests.behaviour.harness import Loop, cpu, differences, signals, state, wait_for
from tests.programs.build import build

Work = Callable[[int], None]


def probes(pid: int) -> None:
    with gilk.attach(pid) as target, target.session() as session:
        first = session.insert("*:blocks", gilk.count)
        session.insert("*:entry", gilk.time)
        session.remove(first)


def following(pid: int) -> None:
    """By copies of the code that are exchanged: of programs that are large enough for that to pay."""
    with gilk.attach(pid) as target, Follower(target.process) as follower:
        functions, _ = follower.prepare([image for image in target.images if image.main], TraceScope())
        assert follower.copy_code()
        follower.expect(functions)
        follower.begin()
        follower.leave(list(functions)[::3])


@contextmanager
def counted(limit: int) -> Iterator[None]:
    """A keeper that is begun meanwhile kills itself instead of touching its target for the ``limit``-th time."""
    mine, done = os.getpid(), 0

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any) -> Any:
            nonlocal done
            if os.getpid() != mine:
                done += 1
                if done == limit:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return instead

    kept = ptrace.call, Memory.write
    ptrace.call, Memory.write = guarded(ptrace.call), guarded(Memory.write)  # type: ignore[method-assign]
    try:
        yield
    finally:
        ptrace.call, Memory.write = kept  # type: ignore[method-assign]


def killed(work: Work, pid: int, limit: int) -> bool:
    """Do it with a keeper that is killed then; whether it was, and not done before."""
    child = os.fork()
    if not child:
        status = 1
        try:
            with counted(limit):
                spawning.begin()
            try:
                work(pid)
                status = 0
            except TargetError as error:
                status = 2 if error.slug == "keeper-gone" else 1
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, 2)
    return ended == 2


def stands(pid: int) -> list[str]:
    """Threads that somebody has stopped."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError):
            found += [tid] if state(int(tid)) in "tT" or ptrace.tracer_of(int(tid)) else []
    return found


def deaf(pid: int) -> list[str]:
    """Threads that have all signals blocked, as a program has them for a moment while it makes a thread."""
    masks = {name: int(mask, 16) for name, mask in signals(pid).items() if "SigBlk" in name}
    return [name for name, mask in masks.items() if mask.bit_count() > 60]


def goes_on(loop: Loop, what: object) -> None:
    assert wait_for(lambda: not stands(loop.pid)), what
    ticks = cpu(loop.pid)
    assert wait_for(lambda: not loop.alive() or cpu(loop.pid) > ticks), what
    assert loop.alive(), (what, loop.process.returncode)
    assert wait_for(lambda: not deaf(loop.pid)), (what, signals(loop.pid))


def kill_at(work: Work, program: str, limit: int) -> bool:
    with Loop([build(program, "static" if work is following else "default")]) as loop:
        assert wait_for(lambda: cpu(loop.pid) > 0)
        if not killed(work, loop.pid, limit):
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


@pytest.mark.parametrize("work", [probes, following])
@pytest.mark.parametrize("program", ["hot8"])
def test_killed_at_some_steps(work: Work, program: str) -> None:
    limit, number = 1, 0
    while kill_at(work, program, limit):
        number += 1
        limit += 1 + limit // 2
    assert number > 8


@pytest.mark.stress
@pytest.mark.parametrize("work", [probes, following])
@pytest.mark.parametrize("program", ["hot8", "threads", "syscalls", "signals"])
def test_killed_at_every_step(work: Work, program: str) -> None:
    limit = 1
    while kill_at(work, program, limit):
        limit += 1
    assert limit > 100

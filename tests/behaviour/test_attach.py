# SPDX-License-Identifier: LGPL-2.1-or-later
"""Attach to a running process and leave it: it goes on as if undisturbed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

import gilk
from gilk.errors import GilkError
from tests.behaviour.harness import (
    Loop,
    cpu,
    deaf,
    differences,
    gs_bases,
    leftovers,
    mortal,
    redirected,
    signals,
    state,
    wait_for,
)
from tests.programs.build import build, names
from tests.seldom import seldom

#: `many` has 11 000 functions; `exec` changes its process image every few milliseconds (test_lifecycle.py); `rounds`
#: only does what it is told to.
LOOPS = [name for name in names() if name not in ("many", "exec", "rounds")]
#: Programs whose threads, signals, children, libraries or frames make the moment of attaching matter. All programs are
#: run with every block instrumented from the start (test_every_block.py).
MOVING = ("threads", "fork", "signals", "sigpc", "exceptions", "syscalls", "dlopen")
#: Programs whose signal masks and dispositions must be restored; sigpc blocks a signal while it handles it.
STEADY = ("hot8", "work", "recursion", "interp", "sigpc")


def assert_clean(pid: int) -> None:
    assert differences(pid) == []
    assert leftovers(pid) == []


@pytest.mark.parametrize("name", [n if n in MOVING else pytest.param(n, marks=pytest.mark.stress) for n in LOOPS])
def test_all_blocks_of_a_running_program_are_counted_and_restored(name: str) -> None:
    with Loop([build(name)]) as loop:
        assert wait_for(lambda: not deaf(loop.pid))
        before = signals(loop.pid)
        with gilk.attach(loop.pid) as target:
            with target.session() as session:
                session.insert("*:blocks", gilk.count)
                assert wait_for(lambda: sum(session.counts().values()) > 2000)
            assert session.restored is True
        assert_clean(loop.pid)
        if name in STEADY:
            assert wait_for(lambda: signals(loop.pid) == before)
        ticks = cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks or state(loop.pid) == "S")


@pytest.mark.stress
@pytest.mark.parametrize("name", ["threads", "exceptions", "syscalls", "fork"])
def test_all_blocks_of_a_running_program_and_its_libc_are_counted(name: str) -> None:
    with Loop([build(name)]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("*:blocks", gilk.count)
            libc = session.insert("libc.so.6:*:blocks", gilk.count)
            names = {probe.row.point for probe in libc}
            assert wait_for(lambda: sum(n for name, n in session.counts().items() if name in names) > 20)
        assert session.restored is True
        assert_clean(loop.pid)


@pytest.mark.parametrize("name", seldom(["hot8", "threads", "work", "recursion"], 2))
def test_the_gs_base_is_given_back(name: str) -> None:
    with Loop([build(name)]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("*:blocks", gilk.count)
            assert wait_for(lambda: gs_bases(loop.pid) != {0})
        assert gs_bases(loop.pid) == {0}


def test_a_process_is_attached_to_again_and_again() -> None:
    """Nothing accumulates over three sessions."""
    with Loop([build("hot8")]) as loop:
        maps = len(open(f"/proc/{loop.pid}/maps").readlines())
        for _ in range(3):
            with gilk.attach(loop.pid) as target, target.session() as session:
                session.insert("*:blocks", gilk.count)
            assert session.restored is True
        assert_clean(loop.pid)
        assert len(open(f"/proc/{loop.pid}/maps").readlines()) <= maps + 1


def test_blocked_system_calls_are_not_disturbed() -> None:
    """Threads asleep in read, futex, nanosleep, epoll_wait, poll, sigtimedwait and a condition variable.

    Only a stop could disturb them: there are thirty changes, each with two stops or more. The program fails at an
    EINTR.
    """
    with Loop([build("syscalls")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        for _ in range(30):
            session.remove(session.insert("*:blocks", gilk.count))
        session.insert("*:entry", gilk.stamp)
        assert wait_for(lambda: session.poll().num_rows > 10)


def test_a_sleep_takes_as_long_as_the_program_asked_for() -> None:
    """The sleep goes on for the time that was left, and ends. On a busy machine only a longer sleep may still be
    there to attach to."""
    assert any(_slept(seconds) for seconds in (3, 15, 60))


def _slept(seconds: int) -> bool:
    """Whether the sleep lasted until the session was over, and had the right length."""
    start = time.monotonic()
    program = subprocess.Popen(["/bin/sleep", str(seconds)])
    try:
        with gilk.attach(program.pid) as target, target.session() as session:
            session.insert("libc.so.6:*nanosleep*:blocks", gilk.count)
        assert_clean(program.pid)
        in_time = program.poll() is None
    except (GilkError, OSError):
        in_time = False
        assert program.poll() is not None or time.monotonic() - start >= seconds, "it sleeps, and cannot be attached to"
    assert program.wait(120) == 0
    assert time.monotonic() - start >= seconds
    return in_time


def test_a_stopped_process_stays_stopped() -> None:
    with Loop([build("hot8")]) as loop:
        os.kill(loop.pid, signal.SIGSTOP)
        assert wait_for(lambda: state(loop.pid) == "T")
        with gilk.attach(loop.pid) as target:
            with target.session() as session:
                session.insert("*:blocks", gilk.count)
                assert wait_for(lambda: stands(loop.pid))  # who is let go stops again on its way out of the kernel
                ticks = cpu(loop.pid)
                time.sleep(0.2)
                assert cpu(loop.pid) == ticks
            assert session.restored is True
        assert wait_for(lambda: stands(loop.pid))
        assert_clean(loop.pid)
        ticks = cpu(loop.pid)
        os.kill(loop.pid, signal.SIGCONT)
        assert wait_for(lambda: cpu(loop.pid) > ticks)


def stands(pid: int) -> bool:
    """Whether each thread of the process is stopped, and not by a tracer."""
    return all(state(int(tid)) == "T" for tid in os.listdir(f"/proc/{pid}/task"))


def test_a_process_stopped_during_a_session_stays_stopped() -> None:
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("*:blocks", gilk.count)
            os.kill(loop.pid, signal.SIGSTOP)
            assert wait_for(lambda: state(loop.pid) == "T")
            session.insert("hot:entry", gilk.stamp)
            assert wait_for(lambda: state(loop.pid) == "T")  # who is let go stops again on its way out of the kernel
        assert wait_for(lambda: state(loop.pid) == "T")
        os.kill(loop.pid, signal.SIGCONT)


@pytest.mark.parametrize("number", seldom([signal.SIGCONT, signal.SIGWINCH, signal.SIGURG], 1))
def test_signals_sent_during_changes_do_no_harm(number: signal.Signals) -> None:
    with Loop([build("signals")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("*:blocks", gilk.count)
        for _ in range(20):
            os.kill(loop.pid, number)
            session.remove(session.insert("*:entry", gilk.stamp))


def test_sessions_in_two_processes_at_once() -> None:
    with Loop([build("hot8")]) as one, Loop([build("work")]) as two:
        with gilk.attach(one.pid) as first, gilk.attach(two.pid) as second:
            with first.session() as a, second.session() as b:
                a.insert("hot:entry", gilk.count)
                b.insert("dispatch:entry", gilk.count)
                assert wait_for(lambda: sum(a.counts().values()) > 100 and sum(b.counts().values()) > 100)
        assert_clean(one.pid)
        assert_clean(two.pid)


@pytest.mark.parametrize("times", [2, pytest.param(200, marks=pytest.mark.stress)])
def test_a_process_killed_while_the_session_changes_it_is_reported(times: int) -> None:
    """The process is killed at any moment: its parent learns of its end at once, although the session goes on."""
    chance = random.Random(5)
    for _ in range(times):
        with mortal([build("hot8")]) as program:
            with gilk.attach(program.pid) as target, target.session() as session:
                session.remove(session.insert("*:entry", gilk.count))
                with killing(program.pid, chance.uniform(0, 0.1)), pytest.raises(gilk.TargetError) as raised:
                    while True:
                        session.remove(session.insert("*:entry", gilk.count))
                assert raised.value.slug == "no-such-process"
                assert program.wait(60) == -signal.SIGKILL


@contextlib.contextmanager
def killing(pid: int, after: float) -> Iterator[None]:
    """A context during which the process is killed, ``after`` so many seconds."""
    timer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_launched_program_has_the_same_nice_value_as_without_gilk() -> None:
    """The keeper raises its own priority if it may, but not that of the program that it launches."""
    with redirected() as (out, _), gilk.launch(["nice"]) as target:
        keeper = target.process.keeper.pid
        allowed = subprocess.run(["nice", "-n", "-40", "nice"], capture_output=True, text=True, check=True).stdout
        assert os.getpriority(os.PRIO_PROCESS, keeper) == int(allowed)  # -20, if that is allowed
        target.resume()
        assert wait_for(lambda: target.process.wait(block=False) is not None)
        out.seek(0)
        assert int(out.read()) == os.getpriority(os.PRIO_PROCESS, 0)

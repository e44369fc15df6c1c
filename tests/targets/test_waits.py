# SPDX-License-Identifier: LGPL-2.1-or-later
"""Something that is waited for does not come: the wait ends, and the target goes on."""

from __future__ import annotations

import functools
import os
import signal

import pytest

import gilk
from gilk.errors import TargetError
from gilk.targets import process, ptrace, wire
from gilk.targets.alive import is_alive
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.remote import remote
from gilk.targets.thread import Thread
from gilk.targets.world import PtracedThreads
from tests.behaviour.harness import Loop, cpu, differences, leftovers, mortal, signals, state, wait_for
from tests.programs.build import build
from tests.targets.keepers import borrowed, kept

_PAUSE = 34


def test_a_borrowed_thread_that_does_not_return_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits in a system call for ever. It has its own registers and mask when it is let go, and can be
    borrowed again."""
    monkeypatch.setattr(ptrace, "wait", functools.partial(ptrace.wait, seconds=1.0))
    with Loop([build("hot8")]) as loop:
        assert wait_for(lambda: cpu(loop.pid) > 0)
        keeper = Keeper(LinuxProcess(loop.pid))
        keeper.mapper.set_up(f"waits-{loop.pid}", 1 << 16, 1 << 16)
        with (
            pytest.raises(TargetError) as raised,
            keeper.process.threads.stopped(),
            remote(keeper.process.threads, keeper.memory) as call,
        ):
            call.call(_PAUSE)
        assert raised.value.slug == "busy"
        assert wait_for(lambda: not keeper.process.threads.release_late())
        ticks = cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks)
        assert wait_for(
            lambda: not any(mask.startswith("ffff") for name, mask in signals(loop.pid).items() if "SigBlk" in name)
        )
        assert keeper.close()
        keeper.memory.close()
        assert leftovers(loop.pid) == []


def test_the_end_of_a_borrowed_main_thread_is_seen_before_that_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed while its main thread makes a system call for gilk. The kernel does not report the end of a
    main thread as long as other threads have not been waited for."""
    main = property(lambda threads: threads.threads[threads.pid])
    monkeypatch.setattr(PtracedThreads, "worker", main)
    request = ptrace.call

    def killing(what: int, tid: int, *more: int) -> int:
        result = request(what, tid, *more)
        if what == ptrace.SYSCALL:
            os.kill(tid, signal.SIGKILL)
            assert wait_for(lambda: not is_alive(tid))
        return result

    with mortal([build("hot8")]) as program, kept(program.pid) as keeper:
        with borrowed(keeper) as call, monkeypatch.context() as patch:
            assert call.tid == program.pid
            patch.setattr(ptrace, "call", killing)
            with pytest.raises(ProcessLookupError):
                call.call(_PAUSE)
        assert wait_for(lambda: not keeper.present())
        assert wait_for(lambda: not keeper.release_late())
        assert keeper.process.threads.exit_status == signal.SIGKILL


def test_a_keeper_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loop([build("hot8")]) as loop:
        target = gilk.attach(loop.pid)
        monkeypatch.setattr(process, "_PATIENCE", 1.0)
        keeper = target.process.keeper
        os.kill(keeper.pid, signal.SIGSTOP)
        with pytest.raises(TargetError) as raised:
            keeper.is_present()
        assert raised.value.slug == "keeper-gone"
        assert wait_for(lambda: not keeper.there)
        with pytest.raises(TargetError):
            target.process.close()
        ticks = cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks)
        assert differences(loop.pid) == []


@pytest.mark.parametrize("when", ["during a request", "between requests"])
def test_a_keeper_that_fails_undoes_everything_and_says_why(when: str) -> None:
    """An error of gilk's own ends the keeper: here, a request that is none, or has an argument of another type."""
    with Loop([build("hot8")]) as loop:
        keeper = process.attach(loop.pid).keeper
        for descriptor in keeper.set_up(f"fails-{loop.pid}", 1 << 16, 1 << 16):
            os.close(descriptor)
        assert leftovers(loop.pid)
        if when == "between requests":
            wire.send(keeper._channel, "no request")
            assert wait_for(lambda: not keeper.there)
        with pytest.raises(TargetError, match=r"has failed: (Type|Value)Error: .* \w+\.py:\d+\)$") as raised:
            keeper.ask("share_memory", "many")
        assert raised.value.slug == "keeper-gone"
        assert not leftovers(loop.pid)
        ticks = cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks)


def test_threads_made_by_a_thread_that_goes_on_are_stopped_too() -> None:
    """The new threads are stopped, too, before anything is changed."""
    with Loop([build("hot8")]) as loop:
        keeper = Keeper(LinuxProcess(loop.pid))
        with keeper.process.threads.stopped() as threads:
            some = next(iter(threads.values()))
            before = set(threads)
            again: Thread = keeper.process.threads.run_on(some, 0.01)
            assert again.tid == some.tid
            keeper.process.threads.catch_up()
            assert before <= set(keeper.process.threads.threads)
            assert set(keeper.process.threads.threads) == set(ptrace.thread_ids(loop.pid))
            assert all(state(tid) == "t" for tid in threads)
        keeper.memory.close()


def test_a_thread_that_is_not_held_any_more_cannot_go_on() -> None:
    """Its end may have been seen while another thread went on."""
    with Loop([build("hot8")]) as loop:
        keeper = Keeper(LinuxProcess(loop.pid))
        with keeper.process.threads.stopped() as threads:
            some = next(iter(threads.values()))
        with pytest.raises(ProcessLookupError):
            keeper.process.threads.run_on(some, 0.01)
        keeper.memory.close()

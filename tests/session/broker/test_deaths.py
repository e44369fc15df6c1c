# SPDX-License-Identifier: LGPL-2.1-or-later
"""Any of the processes that take part in a session dies: the others, and the target, are not harmed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from gilk.session.broker.broker import Broker
from tests.behaviour.harness import Loop, children, cpu, differences, leftovers, wait_for
from tests.programs.build import build
from tests.seldom import seldom
from tests.session.broker.consumers import Worker, consume, counting
from tests.session.broker.test_several_consumers import expected, is_clean, play

ONE = counting(("one",))


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop([build("rounds")]) as loop:
        yield loop


def started(loop: Loop) -> Worker:
    worker = consume(loop.pid, ONE)
    worker.wait_until_in()
    return worker


def broker_of(founder: Worker) -> int:
    return next(pid for pid in children(founder.pid) if Path(f"/proc/{pid}/comm").read_text() == "gilk-broker\n")


def keeper_of(founder: Worker) -> int:
    return next(pid for pid in children(founder.pid) if Path(f"/proc/{pid}/comm").read_text() == "gilk-keeper\n")


def test_the_first_client_is_killed_and_the_others_go_on(loop: Loop) -> None:
    founder, second = started(loop), started(loop)
    play(loop, 1, 1)
    founder.kill()
    third = started(loop)
    play(loop, 2, 1)
    assert second.finish() == expected(("one",), 2)
    assert third.finish() == expected(("one",), 1)
    assert wait_for(lambda: is_clean(loop.pid))


@pytest.mark.stress
def test_the_first_client_leaves_first_and_comes_back(loop: Loop) -> None:
    founder, second = started(loop), started(loop)
    play(loop, 1, 1)
    assert founder.finish() == expected(("one",), 1)
    again = started(loop)
    assert second.finish() == expected(("one",), 1)
    play(loop, 2, 1)
    assert again.finish() == expected(("one",), 1)
    assert is_clean(loop.pid)  # by the time that the last consumer has gone


def test_the_broker_is_killed(loop: Loop) -> None:
    founder, second = started(loop), started(loop)
    os.kill(broker_of(founder), signal.SIGKILL)
    assert wait_for(lambda: is_clean(loop.pid))
    for worker in (founder, second):
        with pytest.raises(AssertionError, match="could not be compared"):
            worker.finish()
    later = started(loop)
    play(loop, 1, 1)
    assert later.finish() == expected(("one",), 1)


@pytest.mark.stress
def test_a_client_that_comes_while_the_keeper_undoes_a_killed_broker(loop: Loop) -> None:
    founder = started(loop)
    broker, keeper = broker_of(founder), keeper_of(founder)
    os.kill(keeper, signal.SIGSTOP)
    os.kill(broker, signal.SIGKILL)
    later = consume(loop.pid, ONE)
    os.kill(keeper, signal.SIGCONT)
    later.wait_until_in()
    play(loop, 1, 1)
    assert later.finish() == expected(("one",), 1)
    founder.kill()
    assert wait_for(lambda: is_clean(loop.pid))


@pytest.mark.stress
def test_broker_and_keeper_are_killed(loop: Loop, gilk_on_path: dict[str, str]) -> None:
    founder = started(loop)
    broker, keeper = broker_of(founder), keeper_of(founder)
    os.kill(keeper, signal.SIGSTOP)
    os.kill(broker, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    with pytest.raises(AssertionError, match="could not be compared"):
        founder.finish()
    play(loop, 1, 1)
    assert differences(loop.pid)
    subprocess.run(["gilk", "restore", str(loop.pid)], env=gilk_on_path, check=True, capture_output=True)
    assert not differences(loop.pid)
    later = started(loop)
    play(loop, 2, 1)
    assert later.finish() == expected(("one",), 1)


@pytest.mark.stress
def test_the_traced_process_is_killed() -> None:
    loop = Loop([build("rounds")])
    workers = [started(loop), started(loop)]
    play(loop, 1, 1)
    loop.process.kill()
    loop.process.communicate()
    for worker in workers:
        assert worker.finish() == expected(("one",), 1)


@pytest.mark.stress
def test_a_stopped_client_does_not_hold_up_others(loop: Loop) -> None:
    founder = started(loop)
    os.kill(founder.pid, signal.SIGSTOP)
    second = started(loop)
    play(loop, 1, 1)
    assert second.finish() == expected(("one",), 1)
    os.kill(founder.pid, signal.SIGCONT)
    assert founder.finish() == expected(("one",), 1)
    assert leftovers(loop.pid) == []


@pytest.mark.parametrize("killed", seldom((True, False), 1))
def test_signals_do_not_lead_into_patches_of_a_client_that_has_gone(killed: bool) -> None:
    """The signals arrive after a system call whose patch is no longer in use, a thousand times a second."""
    with Loop([build("signals")]) as loop:
        stays = consume(loop.pid, "pid$target:a.out:hot:entry { @[probefunc] = count(); }")
        stays.wait_until_in()
        for _ in range(2):
            goes = consume(loop.pid, "syscall:::, pid$target:a.out:one_round: { @[probefunc] = count(); }")
            goes.wait_until_in()
            goes.kill() if killed else goes.finish()
            ticks = cpu(loop.pid) + os.sysconf("SC_CLK_TCK") // 5
            assert wait_for(lambda ticks=ticks: not loop.alive() or cpu(loop.pid) > ticks)
            assert loop.alive()
        assert stays.finish()["hot"] > 1000
        assert wait_for(lambda: is_clean(loop.pid))


def test_a_broker_that_fails_says_why_and_leaves_the_target_clean(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An error of gilk's own ends the broker, which is a fork of this process; the keeper undoes everything then."""

    def fail(broker: Broker) -> None:
        if (tmp_path / "now").exists():
            raise KeyError("for a test")

    monkeypatch.setattr(Broker, "_look_after", fail)
    target = gilk.attach(loop.pid)
    session = target.session()
    (tmp_path / "now").touch()
    assert wait_for(lambda: not target.process.keeper.there)
    with pytest.raises(TargetError, match=r"has failed: KeyError: 'for a test' \(.*broker\.py:\d+ .*\)$") as raised:
        session.insert("a.out:one:entry", "count")
    assert raised.value.slug == "keeper-gone"
    assert wait_for(lambda: is_clean(loop.pid))

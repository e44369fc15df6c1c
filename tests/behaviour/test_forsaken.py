# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processes that hold a target are killed, or do not answer: the command tells, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import gilk
from tests.behaviour.harness import Loop, differences, leftovers, state, wait_for
from tests.behaviour.test_watch_dog import LONG, PARTS, Session
from tests.programs.build import build
from tests.seldom import seldom

COMMANDS = {
    "run": ["run", "-q", "-i", "hot8:*:blocks=count"],
    "dtrace": ["dtrace", "-q", "-n", "pid$target:hot8::entry { @[probefunc] = count(); }"],
    "top": ["top", "-q", "--scope", "hot8:"],
}


@contextmanager
def in_force(command: str) -> Iterator[tuple[Loop, Session]]:
    """A program with the instruments of a command that would go on for ever."""
    with Loop([build("hot8")]) as loop:
        words = [*COMMANDS[command], "-p", str(loop.pid)]
        session = Session(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            assert wait_for(lambda: session.client.poll() is not None or differences(loop.pid), LONG)
            assert session.client.poll() is None
            yield loop, session
        finally:
            session.client.kill()
            session.client.wait()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_an_error_when_its_keeper_is_killed(command: str) -> None:
    with in_force(command) as (loop, session):
        session.send("keeper", signal.SIGKILL)
        _, said = session.client.communicate(timeout=LONG)
        assert session.client.returncode == (1 if command == "dtrace" else 4)
        assert "gilk restore" in said, said
        assert wait_for(session.over, LONG)
        assert differences(loop.pid)
        gilk.restore(loop.pid)
        assert differences(loop.pid) == []
        loop.finish()


@pytest.mark.parametrize(
    ("command", "part", "number"),
    seldom(
        [
            *(("run", "keeper", signal.SIGINT), ("dtrace", "hub", signal.SIGTERM)),
            *(("run", "hub", signal.SIGTERM), ("dtrace", "keeper", signal.SIGINT), ("top", "keeper", signal.SIGINT)),
        ],
        2,
    ),
)
def test_repeated_signals_end_a_command_whose_helper_does_not_answer(
    command: str, part: str, number: signal.Signals
) -> None:
    """The helper takes everything out when it goes on."""
    with in_force(command) as (loop, session):
        helper = session.helpers()[PARTS[part][0]]
        os.kill(helper, signal.SIGSTOP)
        try:
            assert wait_for(lambda: _ends_by(session, number), LONG)
            assert session.client.returncode == 128 + number and state(helper) == "T"
        finally:
            os.kill(helper, signal.SIGCONT)
        assert wait_for(session.over, LONG)
        assert differences(loop.pid) == [] and leftovers(loop.pid) == []
        loop.finish()


def _ends_by(session: Session, number: signal.Signals) -> bool:
    """Send a signal again, and tell whether the client has ended."""
    session.client.send_signal(number)
    return session.client.poll() is not None

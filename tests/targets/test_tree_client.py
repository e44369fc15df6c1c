# SPDX-License-Identifier: LGPL-2.1-or-later
"""The line on which a client is told of programs that are executed, with a keeper that says what the test wants."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Thread
from typing import Any, cast

import pytest

from gilk.errors import TargetError
from gilk.targets import wire
from gilk.targets.process import Process
from gilk.targets.tree import Executed, ProgramsPassed
from gilk.targets.tree_client import TreeClient

ONE, OTHER = Executed(os.getpid(), 1, 0), Executed(os.getpid(), 2, 0)


@dataclass
class Meeting:
    is_over: bool = False
    line: None = None


class Keeper:
    """A keeper that answers one claim, after it has told of another program."""

    pid = os.getpid()

    def __init__(self, answer: TargetError | None) -> None:
        self.answer = answer

    def follow(self, line: int) -> None:
        self.line = socket.socket(fileno=os.dup(line))

    def hear(self) -> None:
        (name, pid), fds = wire.receive(self.line)
        assert (name, pid) == ("claim", ONE.pid)
        wire.send(self.line, [OTHER])
        with socket.socket(fileno=fds[0]) as line:
            wire.send(line, self.answer)


ENDED = TargetError("no-such-process", "it has ended")


@pytest.fixture(params=[None, ENDED], ids=["taken", "refused"])
def keeper(request: pytest.FixtureRequest) -> Iterator[Keeper]:
    keeper = Keeper(request.param)
    yield keeper
    keeper.line.close()


def test_news_that_arrive_during_a_claim_are_received_after_it(keeper: Keeper) -> None:
    """A program that is held until its client hears of it would wait for ever if the news could not be heard."""
    client = TreeClient(cast(Process, type("Launched", (), {"pid": 1, "meeting": Meeting(), "keeper": keeper})))
    thread = Thread(target=keeper.hear)
    thread.start()
    outcome: Any = None
    try:
        outcome = client.claim(ONE)
    except TargetError as error:
        outcome = error
    thread.join()
    assert isinstance(outcome, Process) == (keeper.answer is None)
    assert wire.ready([client.fileno()], seconds=0)[0] and list(client.look()) == [OTHER]


def test_a_beat_during_the_end_of_following_is_no_loss_of_the_keeper(keeper: Keeper) -> None:
    client = TreeClient(cast(Process, type("Launched", (), {"pid": 1, "meeting": Meeting(), "keeper": keeper})))
    thread = Thread(target=client.close)
    thread.start()
    assert not keeper.line.recv(1)  # the client has closed its half
    client.beat()
    wire.send(keeper.line, [ONE, ProgramsPassed(3)])
    keeper.line.close()
    thread.join()
    assert not client.lost and client.unseen == 4

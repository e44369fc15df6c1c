# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that forks keepers is killed at any moment: its client still gets a keeper, and the target runs as
before."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from gilk.targets import fork_server, keepers, wire
from gilk.targets.fork_server import ForkServer
from gilk.targets.keepers import Keepers
from gilk.targets.process import KeeperClient
from gilk.targets.spawning import Spawned
from tests.behaviour.harness import Loop
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build
from tests.seldom import seldom

FILES = {fork_server.__file__, wire.__file__}


def kill_at(limit: int) -> None:
    """From now on this process is killed before the ``limit``-th line of the server; its forks are not."""
    mine, done = os.getpid(), 0

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal done
        if frame.f_code.co_filename not in FILES or os.getpid() != mine:
            return None
        done += event == "line"
        if done == limit:
            os.kill(mine, signal.SIGKILL)
        return look

    sys.settrace(look)


class Child(SimpleNamespace):
    """A stand-in for a process, with the attributes that `keepers` uses."""

    pid: int
    returncode: int | None

    def wait(self, _: float) -> None:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def served(limit: int) -> tuple[socket.socket, Child]:
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        mine.close()
        kill_at(limit)
        ForkServer(theirs).serve()
        os._exit(0)
    theirs.close()
    return mine, Child(pid=pid, returncode=None)


@contextmanager
def gone_after() -> Iterator[None]:
    """Assert that all processes forked within the block have ended after it, whosever children they are."""
    told, tells = os.pipe()
    try:
        yield
    finally:
        os.close(tells)
        assert wire.readable(told, PATIENCE) and not os.read(told, 1)
        os.close(told)


@pytest.mark.parametrize("each", seldom([4, 1], 1))
def test_the_keeper_server_is_killed_before_its_steps(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    """It is killed before every so many steps. The client has a forked keeper that answers, or starts one; none of the
    server's processes stays, and the target runs."""
    instead = Spawned(os.getpid(), socket.socket(), -1, lambda: None)
    monkeypatch.setattr(keepers, "executed", lambda: instead)
    forked = started = 0
    with Loop([build("rounds")]) as loop:
        for limit in range(1, 1000, each):
            mine = Keepers()
            mine._pids.add(os.getpid())  # as if there were a keeper already
            monkeypatch.setattr(keepers, "started", lambda *_, limit=limit, **__: served(limit))
            monkeypatch.setattr(keepers, "_keepers", mine)
            with gone_after():
                made = mine.another(launches=False)
                if made is instead:
                    started += 1
                    assert mine._server is None
                    continue
                forked += 1
                assert mine._server is not None
                ended: Any = mine._server._process
                use(KeeperClient(made=made), loop)
                assert mine._server is None
            if ended.returncode == 0:  # there is no line of that number
                break
    assert started > 10 // each and forked > 10 // each


def use(keeper: KeeperClient, loop: Loop) -> None:
    keeper._of_many = False
    keeper.attach(loop.pid)
    assert keeper.is_present()
    keeper.leave()
    assert not keeper.there
    assert loop.process.stdin
    loop.process.stdin.write(b".")
    loop.process.stdin.flush()
    assert loop.line().startswith("round ")

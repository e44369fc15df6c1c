# SPDX-License-Identifier: LGPL-2.1-or-later
"""Launch the same program in a process of this machine or in memory; a session must find the same things in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gilk.session.session import Session
from gilk.targets.base import Target
from gilk.targets.launch import Until
from gilk.targets.process import Process
from gilk.targets.startup import start
from tests.fake.programs import built
from tests.fake.sessions import program, session
from tests.fake.target import FakeProcess


class Launched(Protocol):
    """A launched program that has not begun. ``target`` is the target of its sessions."""

    @property
    def target(self) -> Target: ...

    def session(self) -> Session: ...

    def read(self, address: int, size: int) -> bytes: ...

    def finish(self) -> int:
        """Let the program run to its end. Returns the low eight bits of its exit status."""
        ...


class InProcess:
    def __init__(self, target: Process) -> None:
        self.target = target

    def session(self) -> Session:
        return Session(self.target, points=4096, threads=16, ring=1 << 16)

    def read(self, address: int, size: int) -> bytes:
        found = self.target.keeper.peek(address, size)
        return found

    def finish(self) -> int:
        self.target.release()
        ended = self.target.wait(block=True)
        assert ended is not None
        return ended.code


class InMemory:
    def __init__(self, target: FakeProcess) -> None:
        self.target = target

    def session(self) -> Session:
        return session(self.target)

    def read(self, address: int, size: int) -> bytes:
        return self.target.program.space.read(address, size)

    def finish(self) -> int:
        return self.target.program.finish() & 0xFF


@contextmanager
def launched(kind: str) -> Iterator[Launched]:
    """Launch the program in a ``process``, or in memory as the ``fake``."""
    if kind == "fake":
        yield InMemory(FakeProcess(program()))
        return
    with start([str(built("plain"))], until=Until.EXEC) as process:
        yield InProcess(process)
        process.kill_unstarted()

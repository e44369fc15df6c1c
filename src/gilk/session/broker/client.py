# SPDX-License-Identifier: LGPL-2.1-or-later
"""A consumer's part in the session of a process: the first founds the broker that has it, the others come to that."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

from gilk.build.instrument import Compiled, compile_instrument
from gilk.errors import TargetError
from gilk.session.broker.client_state import MOST_MEMORY
from gilk.session.broker.messages import InsertRequest, insert_words, raise_error
from gilk.session.broker.transport import Closed, Line, Message
from gilk.session.request import CFunction
from gilk.target import process as processes
from gilk.target.alive import is_alive, reap
from gilk.target.launch import End
from gilk.target.meeting import meet, right_to_trace
from gilk.target.process import Keeper, Process
from gilk.target.running import MOST_STACK, Sample
from gilk.version import VERSION

_PATIENCE = 120.0  # seconds: a change may take ten of them, and there may be some before ours
_FAREWELL = 60.0  # seconds for the broker, and its keeper, to end
_TRIES = 100


class RemoteTracer(Keeper):
    """Stands in for a keeper that another process is the client of. ``line``: to that one, once there is one."""

    def __init__(self, pid: int, line: Line | None = None, keeper: Keeper | None = None, broker: int = 0) -> None:
        self._pid, self._line, self._mine, self._broker = pid, line, keeper, broker
        self.restored: bool | None = None
        self.told: list[str] = []

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """Raises TargetError `keeper-gone`, and what the broker raises."""
        match name:
            case "release":
                self.say({"do": "release"})
                return None
            case "wait":
                code = self.say({"do": "wait"}).words.get("code")
                return None if code is None else End(int(code))
            case "raise_semaphores":
                self.say({"do": "listen", "counters": list(arguments[0])})
                return []  # they are lowered when we leave
            case "sample":
                answer = self.say({"do": "sample", "stack": min(arguments[0], MOST_STACK)})
                return list(_samples(answer))
            case "close":
                return self._leave() is not False
            case "notes":
                return self.told
            case _:
                raise AssertionError(name)

    @property
    def there(self) -> bool:
        return self._line is not None and self._line.is_open()

    def say(self, words: dict[str, Any], content: bytes = b"") -> Message:
        """The answer. Raises TargetError `keeper-gone`, and what the broker raises."""
        if self._line is None:
            raise TargetError("keeper-gone", f"the session of process {self._pid} is closed")
        try:
            answer = self._line.ask(words, content)
        except (Closed, TimeoutError):
            self._close()
            why = "the process that has the session has gone, or does not answer"
            if not is_alive(self._pid):
                why = f"process {self._pid} has ended"
            raise TargetError("keeper-gone", why) from None
        raise_error(answer.words)
        return answer

    def _leave(self) -> bool | None:
        if self._line is not None:
            words = self.say({"do": "leave"}).words
            self.restored, self.told = words.get("restored"), [str(note) for note in words.get("notes", ())]
            self._close()
        return self.restored

    def leave(self) -> None:
        """Broker and keeper are gone by now if nobody else has a part in them."""
        self._close()
        if self._broker and self.restored is not None:
            reap(self._broker, _FAREWELL)
            self._broker = 0
            if self._mine is not None:
                self._mine.reap()

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class BrokerClient:
    """``memory`` is mapped in the process too, at ``offset`` from the session's control page (gilk_abi.h)."""

    def __init__(self, process: Process, size: int) -> None:
        """Raises TargetError, and OSError when it is more than there can be; then a smaller one may be made."""
        if size > MOST_MEMORY:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._process = process
        self._away = joined(process)
        answer = self._away.say({"do": "memory", "size": size})
        try:
            self.memory = mmap.mmap(answer.fd, size)
        finally:
            os.close(answer.fd)
        self.offset = int(answer.words["offset"])
        self._compiled: dict[CFunction, Compiled] = {}

    def insert(self, asked: Sequence[InsertRequest]) -> dict[int, str]:
        """Put in C functions, which are called with their place among them, from 1, all in one change.

        Why those that are refused are, by their place, from 0. Raises CompileError, TargetError; then nothing has
        changed.
        """
        if not asked:
            return {}
        compiled = {
            each: compile_instrument(each.source, each.function, each.flags, each.made_of, each.text)
            for each in dict.fromkeys(one.instrument for one in asked)
        }
        refused = self._away.say(*insert_words(asked, compiled)).words["refused"]
        return {int(place): str(reason) for place, reason in refused}

    def inside(self) -> set[int]:
        """Blocks of threads that are in an instrument which wants it known. Raises TargetError `keeper-gone`."""
        return {int(block) for block in self._away.say({"do": "inside"}).words["blocks"]}

    def close(self) -> bool | None:
        """Take out what was put in; whether the process is known to be what it was, None when others have a part in it
        still."""
        try:
            self._away.ask("close")
        except TargetError as error:
            if error.slug != "keeper-gone":
                raise
            return False if self._process.alive else None  # one that has ended has no code that could be wrong
        return self._away.restored

    @property
    def notes(self) -> list[str]:
        """What the user is to know of how it ended."""
        return self._away.told


def approached(pid: int) -> Process:
    """A process to have a part in the session of; attached, if nobody else is. Raises TargetError."""
    meeting = meet(pid)
    try:
        process = processes.attach(pid) if meeting.line is None else Process(RemoteTracer(pid), pid, launched=False)
    except BaseException:
        meeting.close()
        raise
    process.meeting = meeting
    return process


def joined(process: Process) -> RemoteTracer:
    """As before, if it was joined already. Raises TargetError."""
    if isinstance(process.keeper, RemoteTracer) and process.keeper.there:
        return process.keeper
    for _ in range(_TRIES):
        if process.meeting.line is None:
            return _founded(process)
        away = _arrived(process)
        if away is not None:
            return away
        process.meeting = meet(process.pid)
    raise TargetError(
        "keeper-gone", f"joining the session of process {process.pid} failed: its owners exited each time"
    )


def _founded(process: Process) -> RemoteTracer:
    if isinstance(process.keeper, RemoteTracer):
        process.keeper = processes.keeper_of(process.pid)
    from gilk.session.broker.forking import fork_broker  # what those who come later need not wait for

    keeper = process.keeper
    end, broker = fork_broker(process)
    process.keeper = away = RemoteTracer(process.pid, Line(end, _PATIENCE), keeper, broker)
    return away


def _arrived(process: Process) -> RemoteTracer | None:
    """None when who was there has gone. Raises TargetError."""
    assert process.meeting.line is not None
    line = Line(process.meeting.line, _PATIENCE)
    right = right_to_trace(process.pid)
    try:
        raise_error(line.ask({"do": "hello", "version": VERSION}, fd=right).words)
    except Closed:
        line.close()
        return None
    except TimeoutError:
        line.close()
        raise TargetError(
            "session-silent",
            f"the gilk session that has process {process.pid} does not answer",
            "the process that began it may be stopped",
        ) from None
    finally:
        os.close(right)
    process.keeper = away = RemoteTracer(process.pid, line)
    return away


def _samples(answer: Message) -> Iterator[Sample]:
    """The stacks lie one behind the other."""
    at = 0
    for tid, cpu, thread, registers, size in answer.words["samples"]:
        yield Sample(tid, cpu, thread, tuple(registers), answer.content[at : at + size])
        at += size

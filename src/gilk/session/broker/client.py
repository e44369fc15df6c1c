# SPDX-License-Identifier: LGPL-2.1-or-later
"""A consumer's part in the session of a process: the first consumer founds the broker, the others connect to it."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

from gilk.errors import GilkError, TargetError, keeper_gone
from gilk.session.broker.messages import MOST_MEMORY, Inserted, InsertRequest, insert_words, raise_error
from gilk.session.broker.transport import Closed, Line, Message
from gilk.session.request import CFunction
from gilk.targets import process as processes
from gilk.targets.alive import is_alive, is_going, reap
from gilk.targets.base import Loaded
from gilk.targets.bounds import backing_at
from gilk.targets.launch import ProcessEnd
from gilk.targets.meeting import Meeting, rendezvous, right_to_trace
from gilk.targets.own_time import works
from gilk.targets.process import KeeperClient, Process
from gilk.targets.running import MOST_STACK, Sample
from gilk.toolchain.instrument import CompiledObject, compile_instrument
from gilk.trace.layout import Geometry
from gilk.version import VERSION

_PATIENCE = 120.0  # seconds: a change may take ten, and other changes may come before ours
_FAREWELL = 60.0  # seconds for the broker, and its keeper, to end
_TRIES = 100


class RemoteTracer(KeeperClient):
    """Stands in for the keeper of a process whose session a broker has. ``line``: the line to the broker, None before
    there is one.

    ``mine``: our former keeper, which was handed over to ``broker``, a child process of ours. ``own``: a keeper of ours
    that has launched the process, and that no broker has.
    """

    is_shared = True

    def __init__(
        self,
        pid: int,
        line: Line | None = None,
        mine: KeeperClient | None = None,
        broker: int = 0,
        own: KeeperClient | None = None,
    ) -> None:
        self._pid, self._line, self._mine, self._broker, self._own = pid, line, mine, broker, own
        self.pid = 0 if mine is None else mine.pid
        self._memory: tuple[int, int, int] | None = None  # address, device, inode
        self.takes_part = False
        self.restored: bool | None = None
        self.told: list[str] = []
        self.lost = 0
        self.others_go_on = False

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        """Answer what a keeper is asked, with the help of the broker. Raises TargetError `keeper-gone`, and what the
        broker raises."""
        match name:
            case "release" | "wait" if self._own is not None:
                return self._own.ask(name, *arguments)
            case "hold":
                self.say({"do": "hold"})
                return None
            case "release":
                self.say({"do": "release"})
                return None
            case "wait":
                return self._end()
            case "raise_semaphores":
                self.say({"do": "listen", "counters": list(arguments[0])})
                return []  # the broker lowers them when this client leaves
            case "sample":
                answer = self.say({"do": "sample", "stack": min(arguments[0], MOST_STACK)})
                return list(_samples(answer))
            case "present":
                return self._is_present()
            case "close":
                return self._leave() is not False
            case "notes":
                return self.told
            case _:
                raise AssertionError(name)

    def _end(self) -> ProcessEnd | None:
        if is_alive(self._pid):
            return None
        code = self.say({"do": "wait"}).words.get("code")
        return None if code is None else ProcessEnd(int(code))

    def _is_present(self) -> bool:
        """Whether this client's memory is still mapped in the process. Reads /proc directly, since the broker may be
        busy."""
        if self._memory is None:
            return True
        address, device, inode = self._memory
        found = backing_at(self._pid, address)
        return found is not None and (found.device, found.inode) == (device, inode)

    def share(self, size: int) -> tuple[int, int]:
        """Memory that is shared with the process: our descriptor of it, and its offset from the session's control
        page."""
        self.takes_part = True
        answer = self.say({"do": "memory", "size": size})
        held = os.fstat(answer.fd)
        self._memory = int(answer.words["address"]), held.st_dev, held.st_ino
        return answer.fd, int(answer.words["offset"])

    def share_common(self, memory: int, size: int) -> int:
        """Map our memory, given by its descriptor, into the process, too; returns its offset from the session's control
        page."""
        self.takes_part = True
        return int(self.say({"do": "common", "size": size}, fd=memory).words["offset"])

    @property
    def there(self) -> bool:
        return self._line is not None and self._line.is_open()

    def _gone(self, why: str) -> TargetError:
        """The error for a session that is gone: `no-such-process` if the process has ended or is about to, which is the
        reason then."""
        if is_going(self._pid):
            return TargetError("no-such-process", f"process {self._pid} has ended")
        return keeper_gone(why)

    def say(self, words: dict[str, Any], content: bytes = b"", fd: int = -1) -> Message:
        """The broker's answer to a request. Raises TargetError `keeper-gone`, `no-such-process`, and what the broker
        raises."""
        if self._line is None:
            raise self._gone(f"the session of process {self._pid} is closed")
        try:
            answer = self._line.ask(words, content, fd)
        except Closed:
            self._close()
            raise self._gone("the process that has the session has gone") from None
        except TimeoutError:
            self._close()
            raise self._gone("the process that has the session does not answer") from None
        except BaseException:  # Ctrl-C: the next request would get the answer to this one
            line, self._line = self._line, None
            line.end(_FAREWELL)
            raise
        raise_error(answer.words)
        return answer

    def _leave(self) -> bool | None:
        """Leave the session; returns whether the process is what it was, None if that is unknown. The line stays open,
        since the broker tells the end of a launched process there."""
        if self._line is not None and self.takes_part:
            words = self.say({"do": "leave"}).words
            self.restored, self.told = words.get("restored"), [str(note) for note in words.get("notes", ())]
            self.others_go_on, self.lost = bool(words.get("others")), int(words.get("lost", 0))
            self._memory, self.takes_part = None, False
        return self.restored

    def leave(self) -> None:
        """Close the line. If nobody else has a part in the session, broker and keeper have ended when this returns."""
        self._close()
        if self._broker and self.restored is not None:
            reap(self._broker, _FAREWELL)
            self._broker = 0
            if self._mine is not None:
                self._mine.reap()
        if self._own is not None:
            self._own.leave()

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class BrokerClient:
    """The client's side of the broker. ``memory`` is shared with the process, at ``offset`` from the session's control
    page (gilk_abi.h)."""

    def __init__(self, process: Process, size: int) -> None:
        """Join the session of a process with ``size`` bytes of shared memory. Raises TargetError, and OSError if that
        is too much; then the caller may try less."""
        if size > MOST_MEMORY:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._process = process
        self._tracer = joined(process)
        try:
            fd, self.offset = self._tracer.share(size)
        except GilkError:
            with contextlib.suppress(TargetError):
                self._tracer.close()
            raise
        try:
            self.memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._compiled: dict[CFunction, CompiledObject] = {}

    def map_common(self, memory: int, size: int) -> int:
        """Map sealed memory (targets/shared_memory.py), given by its descriptor, into the process until we leave.

        Returns its offset from the session's control page. Raises TargetError `cannot-share`.
        """
        return self._tracer.share_common(memory, size)

    def open_region(self, geometry: Geometry, follows: bool = False) -> int:
        """Declare the layout of the memory, which has room for one block more; returns the number of this part of the
        session.

        ``follows``: the client follows calls. Raises TargetError, `trace-alone` if another client follows already.
        """
        rings = [[ring.offset, ring.size] for ring in geometry.rings]
        words = {"blocks": geometry.blocks, "stride": geometry.stride, "counters": geometry.counters, "rings": rings}
        return int(self.say({"do": "region", **words, "follows": int(follows)}).words["number"])

    def say(self, words: dict[str, Any], content: bytes = b"") -> Message:
        """The broker's answer to a message (messages.py). Raises TargetError, and what the broker raises."""
        return self._tracer.say(words, content)

    def insert(self, asked: Sequence[InsertRequest], dormant: bool = False) -> Inserted:
        """Put probes in, in one change. Raises CompileError, TargetError; then nothing has changed."""
        if not asked:
            return Inserted({}, {}, 0.0, 0.0)
        compiled = {each: self._compile(each) for each in dict.fromkeys(one.instrument for one in asked)
                    if isinstance(each, CFunction)}  # fmt: skip
        answer = self._tracer.say(*insert_words(asked, compiled, dormant)).words
        refused = {int(place): str(reason) for place, reason in answer["refused"]}
        tactics = {int(place): str(tactic) for place, tactic in answer["tactics"]}
        return Inserted(refused, tactics, float(answer["total"]), float(answer["seconds"]))

    def _compile(self, chosen: CFunction) -> CompiledObject:
        if chosen not in self._compiled:
            self._compiled[chosen] = compile_instrument(
                chosen.source, chosen.function, chosen.flags, chosen.made_of, chosen.text
            )
        return self._compiled[chosen]

    def remove(self, numbers: Sequence[int]) -> None:
        """Take probes of the region out, by their numbers. Raises TargetError; then nothing has changed."""
        self._tracer.say({"do": "remove", "numbers": list(numbers)})

    def lose(self, loaded: Loaded) -> None:
        """Tell the broker that an image has been unmapped; all our probes in it are out then. Raises TargetError."""
        self._tracer.say({"do": "lose", "image": [str(loaded.path), loaded.bias]})

    def look(self) -> None:
        """Have the broker look for signal handlers that the program has installed."""
        self._tracer.say({"do": "look"})

    def renew(self) -> None:
        """Tell the broker that threads which had found no room in our memory may try again."""
        self._tracer.say({"do": "renew"})

    @property
    def lost(self) -> int:
        """The hits of threads for which the session itself had no room; known once it is closed."""
        return self._tracer.lost

    def inside(self) -> set[int]:
        """The blocks of the threads that are in an instrument which reports that. Raises TargetError `keeper-gone`."""
        return {int(block) for block in self._tracer.say({"do": "inside"}).words["blocks"]}

    def close(self) -> bool | None:
        """Take out what this client put in.

        Returns whether the process is known to be what it was, None if others still have a part in it or if it has
        ended.
        """
        try:
            self._tracer.close()
        except TargetError as error:
            if error.slug != "keeper-gone":
                raise
            return False if self._process.alive else None  # a process that has ended has no code that could be wrong
        finally:
            if self._tracer is not self._process.keeper:
                self._tracer.leave()
        return self._tracer.restored

    @property
    def others_go_on(self) -> bool:
        """Whether others had a part in the process when this client closed."""
        return self._tracer.others_go_on

    @property
    def notes(self) -> list[str]:
        """Notes for the user, which the broker gave at the end."""
        return self._tracer.told


def approached(pid: int) -> Process:
    """A process whose session the caller can join; attached to, if nobody else is. Raises TargetError."""
    meeting = rendezvous(pid)
    try:
        process = processes.attach(pid) if meeting.line is None else Process(RemoteTracer(pid), pid, launched=False)
    except BaseException:
        meeting.close()
        raise
    process.meeting = meeting
    return process


def approach_again(process: Process) -> None:
    """Leave the session that the process has, and attach to it again as before its first session; if another client
    has a session with it, join that. Raises TargetError."""
    process.keeper.leave()
    process.meeting.close()
    for _ in range(_TRIES):
        process.meeting = rendezvous(process.pid)
        if process.meeting.line is None:
            process.keeper = processes.keeper_of(process.pid)
            return
        if _arrived(process) is not None:
            return
    raise _owners_gone(process)


def joined(process: Process) -> RemoteTracer:
    """The tracer by which the process is in a shared session: the present one if it is not in use, else a new one.
    Raises TargetError."""
    known = process.keeper
    if isinstance(known, RemoteTracer) and known.there and not known.takes_part:
        return known
    if process.meeting.is_over:
        process.meeting = rendezvous(process.pid)
    for _ in range(_TRIES):
        if process.meeting.line is None:
            return _founded(process)
        tracer = _arrived(process)
        if tracer is not None:
            return tracer
        process.meeting = rendezvous(process.pid)
    raise _owners_gone(process)


def _owners_gone(process: Process) -> TargetError:
    why = f"joining the session of process {process.pid} failed: its owners exited each time"
    return TargetError("keeper-gone", why)


def _founded(process: Process) -> RemoteTracer:
    if isinstance(process.keeper, RemoteTracer):
        process.keeper = processes.keeper_of(process.pid)
    from gilk.session.broker.forking import fork_broker  # later clients need not wait for it

    keeper = process.keeper
    end, broker = fork_broker(process)
    line = Line(end, _PATIENCE, works(broker))
    process.keeper = tracer = RemoteTracer(process.pid, line, keeper, broker)
    return tracer


def _arrived(process: Process) -> RemoteTracer | None:
    """Join the broker that is there, and return the tracer; None if the broker has gone. Raises TargetError."""
    assert process.meeting.line is not None
    line = Line(process.meeting.line, _PATIENCE)
    process.meeting = Meeting()
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
    return _in_place_of(process, line)


def _in_place_of(process: Process, line: Line) -> RemoteTracer:
    """The tracer for a process that another keeper holds. Our own keeper goes, unless it has launched the process.

    If a session of ours uses the process's present tracer, that session keeps it.
    """
    keeper = process.keeper
    if isinstance(keeper, RemoteTracer) and keeper.there:
        return RemoteTracer(process.pid, line)
    if isinstance(keeper, RemoteTracer) or not process.launched:
        keeper.leave()
        tracer = RemoteTracer(process.pid, line)
    else:
        tracer = RemoteTracer(process.pid, line, own=keeper)
    process.keeper = tracer
    return tracer


def _samples(answer: Message) -> Iterator[Sample]:
    """The samples of an answer, whose content has their stacks one after the other."""
    at = 0
    for tid, cpu, thread, registers, size in answer.words["samples"]:
        yield Sample(tid, cpu, thread, tuple(registers), answer.content[at : at + size])
        at += size

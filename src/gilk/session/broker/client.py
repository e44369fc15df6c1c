# SPDX-License-Identifier: LGPL-2.1-or-later
"""A consumer's part in the session of a process: the first founds the broker that has it, the others come to that."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

from gilk.errors import TargetError
from gilk.session.broker.messages import MOST_MEMORY, Inserted, InsertRequest, insert_words, raise_error
from gilk.session.broker.transport import Closed, Line, Message
from gilk.session.request import CFunction
from gilk.targets import process as processes
from gilk.targets.alive import is_alive, is_going, reap
from gilk.targets.base import Loaded
from gilk.targets.bounds import backing_at
from gilk.targets.launch import ProcessEnd
from gilk.targets.meeting import Meeting, rendezvous, right_to_trace
from gilk.targets.process import KeeperClient, Process
from gilk.targets.running import MOST_STACK, Sample
from gilk.toolchain.instrument import CompiledObject, compile_instrument
from gilk.trace.layout import Geometry
from gilk.version import VERSION

_PATIENCE = 120.0  # seconds: a change may take ten of them, and there may be some before ours
_FAREWELL = 60.0  # seconds for the broker, and its keeper, to end
_TRIES = 100


class RemoteTracer(KeeperClient):
    """Stands in for a keeper that another process is the client of. ``line``: to that one, once there is one.

    ``mine``: the keeper that was handed over to ``broker``, a child of ours; ``own``: one that is not, and has launched
    the process.
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
        """Raises TargetError `keeper-gone`, and what the broker raises."""
        match name:
            case "release" | "wait" if self._own is not None:
                return self._own.ask(name, *arguments)
            case "release":
                self.say({"do": "release"})
                return None
            case "wait":
                return self._end()
            case "raise_semaphores":
                self.say({"do": "listen", "counters": list(arguments[0])})
                return []  # they are lowered when we leave
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
        """Whether this client's memory is still mapped in the process; seen from here, as the broker may be at work."""
        if self._memory is None:
            return True
        address, device, inode = self._memory
        found = backing_at(self._pid, address)
        return found is not None and (found.device, found.inode) == (device, inode)

    def share(self, size: int) -> tuple[int, int]:
        """Memory that the process has, too: a descriptor, and how far it lies from the session's control page."""
        self.takes_part = True
        answer = self.say({"do": "memory", "size": size})
        held = os.fstat(answer.fd)
        self._memory = int(answer.words["address"]), held.st_dev, held.st_ino
        return answer.fd, int(answer.words["offset"])

    def share_common(self, memory: int, size: int) -> int:
        """Have memory of ours in the process, too, by its descriptor; how far it lies from the session's control
        page."""
        self.takes_part = True
        return int(self.say({"do": "common", "size": size}, fd=memory).words["offset"])

    @property
    def there(self) -> bool:
        return self._line is not None and self._line.is_open()

    def _gone(self, why: str) -> TargetError:
        """`no-such-process` where the process has ended, or is about to, which is why the session has."""
        if is_going(self._pid):
            return TargetError("no-such-process", f"process {self._pid} has ended")
        return TargetError("keeper-gone", why)

    def say(self, words: dict[str, Any], content: bytes = b"", fd: int = -1) -> Message:
        """The answer. Raises TargetError `keeper-gone`, `no-such-process`, and what the broker raises."""
        if self._line is None:
            raise self._gone(f"the session of process {self._pid} is closed")
        try:
            answer = self._line.ask(words, content, fd)
        except (Closed, TimeoutError):
            self._close()
            raise self._gone("the process that has the session has gone, or does not answer") from None
        except BaseException:  # Ctrl-C: what is asked next would be given this answer
            line, self._line = self._line, None
            line.end(_FAREWELL)
            raise
        raise_error(answer.words)
        return answer

    def _leave(self) -> bool | None:
        """The line stays: the end of a launched process is told there."""
        if self._line is not None and self.takes_part:
            words = self.say({"do": "leave"}).words
            self.restored, self.told = words.get("restored"), [str(note) for note in words.get("notes", ())]
            self.others_go_on, self.lost = bool(words.get("others")), int(words.get("lost", 0))
            self._memory, self.takes_part = None, False
        return self.restored

    def leave(self) -> None:
        """Broker and keeper are gone by then if nobody else has a part in them."""
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
    """``memory`` is mapped in the process too, at ``offset`` from the session's control page (gilk_abi.h)."""

    def __init__(self, process: Process, size: int) -> None:
        """Raises TargetError, and OSError when it is more than there can be; then a smaller one may be made."""
        if size > MOST_MEMORY:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self._process = process
        self._tracer = joined(process)
        fd, self.offset = self._tracer.share(size)
        try:
            self.memory = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._compiled: dict[CFunction, CompiledObject] = {}

    def map_common(self, memory: int, size: int) -> int:
        """Have sealed memory (targets/shared_memory.py) in the process, too, by its descriptor, until we leave; how far
        it lies from the session's control page. Raises TargetError `cannot-share`."""
        return self._tracer.share_common(memory, size)

    def open_region(self, geometry: Geometry, follows: bool = False) -> int:
        """Have the memory be laid out so, with room for one block more; the number of the part that it is then.
        Raises TargetError; `trace-alone` if it is to follow and another does."""
        rings = [[ring.offset, ring.size] for ring in geometry.rings]
        words = {"blocks": geometry.blocks, "stride": geometry.stride, "counters": geometry.counters, "rings": rings}
        return int(self.say({"do": "region", **words, "follows": int(follows)}).words["number"])

    def say(self, words: dict[str, Any], content: bytes = b"") -> Message:
        """The broker's answer (messages.py). Raises TargetError, and what the broker raises."""
        return self._tracer.say(words, content)

    def insert(self, asked: Sequence[InsertRequest], dormant: bool = False) -> Inserted:
        """All in one change. Raises CompileError, TargetError; then nothing has changed."""
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
        """Take out probes of a region. Raises TargetError; then nothing has changed."""
        self._tracer.say({"do": "remove", "numbers": list(numbers)})

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped: all that was put in there is out. Raises TargetError."""
        self._tracer.say({"do": "lose", "image": [str(loaded.path), loaded.bias]})

    def look(self) -> None:
        """The program has installed handlers of signals."""
        self._tracer.say({"do": "look"})

    def renew(self) -> None:
        """There is room again for threads that had found none."""
        self._tracer.say({"do": "renew"})

    @property
    def lost(self) -> int:
        """Hits of threads that the session itself had no room for; once it is closed."""
        return self._tracer.lost

    def inside(self) -> set[int]:
        """Blocks of threads that are in an instrument which wants it known. Raises TargetError `keeper-gone`."""
        return {int(block) for block in self._tracer.say({"do": "inside"}).words["blocks"]}

    def close(self) -> bool | None:
        """Take out what was put in; whether the process is known to be what it was, None when others have a part in it
        still."""
        try:
            self._tracer.close()
        except TargetError as error:
            if error.slug != "keeper-gone":
                raise
            return False if self._process.alive else None  # one that has ended has no code that could be wrong
        finally:
            if self._tracer is not self._process.keeper:
                self._tracer.leave()
        return self._tracer.restored

    @property
    def others_go_on(self) -> bool:
        """When it was closed, others had a part in the process."""
        return self._tracer.others_go_on

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the end."""
        return self._tracer.told


def approached(pid: int) -> Process:
    """A process to have a part in the session of; attached, if nobody else is. Raises TargetError."""
    meeting = rendezvous(pid)
    try:
        process = processes.attach(pid) if meeting.line is None else Process(RemoteTracer(pid), pid, launched=False)
    except BaseException:
        meeting.close()
        raise
    process.meeting = meeting
    return process


def joined(process: Process) -> RemoteTracer:
    """As before, if it was joined already and is not in use. Raises TargetError."""
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
    raise TargetError(
        "keeper-gone", f"joining the session of process {process.pid} failed: its owners exited each time"
    )


def _founded(process: Process) -> RemoteTracer:
    if isinstance(process.keeper, RemoteTracer):
        process.keeper = processes.keeper_of(process.pid)
    from gilk.session.broker.forking import fork_broker  # what those who come later need not wait for

    keeper = process.keeper
    end, broker = fork_broker(process)
    process.keeper = tracer = RemoteTracer(process.pid, Line(end, _PATIENCE), keeper, broker)
    return tracer


def _arrived(process: Process) -> RemoteTracer | None:
    """None when who was there has gone. Raises TargetError."""
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
    """The keeper that we have is not the one that the process is held by: it goes, unless it has launched it. A session
    of ours that has another line goes on by that."""
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
    """The stacks lie one behind the other."""
    at = 0
    for tid, cpu, thread, registers, size in answer.words["samples"]:
        yield Sample(tid, cpu, thread, tuple(registers), answer.content[at : at + size])
        at += size

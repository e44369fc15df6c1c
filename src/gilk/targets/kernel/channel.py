# SPDX-License-Identifier: LGPL-2.1-or-later
"""The client's end of a relay's byte stream: requests under way, and the processes that the relay runs for the client.

There is no thread: a caller that waits for an answer reads the stream, and hands messages for other requests to those.
Writing never blocks, because the relay may at that moment be waiting to be read.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gilk.errors import MachineGone, TargetError
from gilk.targets import wire
from gilk.targets.framing import FrameReader, MessageKind, TooLarge, framed
from gilk.targets.kernel.messages import LARGEST, LARGEST_ANSWER, MAGIC, UNDER_WAY, VERSION, pack_strings

_READ: Final = 1 << 20  # bytes of one read
_AHEAD: Final = 256  # requests of ask_all() that may be without an answer

Sink = Callable[[bytes], object]


class RelayRequest:
    """A request to the relay, with its answer so far."""

    def __init__(self) -> None:
        self.answer = bytearray()
        self.done = False
        self.error: OSError | None = None

    def take(self, kind: int, payload: bytes) -> None:
        if kind == MessageKind.PART:
            self.answer += payload
            if len(self.answer) > LARGEST_ANSWER:
                raise _nonsense(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
        elif kind == MessageKind.FAIL and len(payload) >= 4:
            number = int.from_bytes(payload[:4], "little")
            self.error = OSError(number, payload[4:].decode(errors="replace"))
        elif kind != MessageKind.DONE:
            raise _nonsense(f"a message of kind {kind} as an answer")
        self.done = kind != MessageKind.PART


class RemoteProcess(RelayRequest):
    """A process that the relay runs. Its output goes to the sinks; `status` is None until it has ended."""

    def __init__(self, channel: Channel, out: Sink, err: Sink) -> None:
        super().__init__()
        self.tag = 0
        self.status: int | None = None  # as a shell gives it: 128 + the number of the signal that killed it
        self._channel = channel
        self._sinks = {MessageKind.OUT: out, MessageKind.ERR: err}
        self._pending = bytearray()
        self._room = UNDER_WAY
        self._ending = False

    def take(self, kind: int, payload: bytes) -> None:
        if kind in self._sinks:
            self._sinks[MessageKind(kind)](payload)
        elif kind == MessageKind.TOOK and len(payload) == 4:
            self._room += int.from_bytes(payload, "little")
            self._feed()
        elif kind == MessageKind.EXIT and len(payload) == 4:
            (status,) = struct.unpack("<i", payload)
            self.status = status if status >= 0 else 128 - status
            self._channel.forget(self.tag)
        else:
            super().take(kind, payload)

    @property
    def hungry(self) -> bool:
        """Whether the process would be sent more input at once, rather than this side keeping it."""
        return self.status is None and not self._pending and self._room > 0

    def write(self, data: bytes) -> None:
        """Send input to the process; as much as the relay has no room for is kept here."""
        self._pending += data
        self._feed()

    def end_input(self) -> None:
        self._ending = True
        self._feed()

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group."""
        self._tell(MessageKind.SIGNAL, struct.pack("<I", number))

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the process's terminal, if it is on one."""
        self._tell(MessageKind.WINDOW, struct.pack("<HH", rows, columns))

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end of the process; returns its status, None when it still runs after `timeout` seconds. Raises
        TargetError when the relay is gone."""
        self._channel.until(lambda: self.status is not None, timeout)
        return self.status

    def _feed(self) -> None:
        if self._pending and self._room:
            piece = bytes(self._pending[: self._room])
            del self._pending[: len(piece)]
            self._room -= len(piece)
            self._tell(MessageKind.INPUT, piece)
        if self._ending and not self._pending:
            self._ending = False
            self._tell(MessageKind.INPUT, b"")

    def _tell(self, kind: MessageKind, payload: bytes) -> None:
        if self.status is None:
            self._channel.post(kind, self.tag, payload)


class Channel:
    """The stream to a relay. `gone` is called for the error to raise when the stream has ended; `silent` for a hint
    about a machine that does not answer."""

    def __init__(
        self, source: int, sink: int, gone: Callable[[], MachineGone] | None = None,
        silent: Callable[[], str] = lambda: "",
    ) -> None:  # fmt: skip
        self.source, self.sink = source, sink
        self.release = ""  # the release of the relay's kernel, once the relay has told it
        self._gone = gone
        self._silent = silent
        self._lost: MachineGone | None = None
        self._heard = 0.0  # when bytes last came, by time.monotonic()
        self._received = FrameReader(LARGEST)
        self._unsent = bytearray()
        self._open: dict[int, RelayRequest] = {}
        self._last_tag = 0
        for descriptor in (source, sink):
            os.set_blocking(descriptor, False)

    def greet(self, timeout: float) -> bool:
        """Wait for the relay's first message; returns False when none comes within `timeout` seconds. Raises
        TargetError."""
        return self.until(lambda: bool(self.release), timeout)

    def ask(self, kind: MessageKind, payload: bytes, timeout: float) -> bytes:
        """Make a request; returns the answer. Raises the relay's OSError; MachineGone when no answer comes, and for all
        requests after that at once."""
        return self.ask_all(kind, [payload], timeout)[0]

    def ask_all(self, kind: MessageKind, payloads: Iterable[bytes], timeout: float) -> list[bytes]:
        """Make requests, some of them before the answers to earlier ones have come; returns the answers, in order.
        Raises as ask() does, once all requests that were made have been answered."""
        asked: list[tuple[int, RelayRequest]] = []
        for number, payload in enumerate(payloads):
            request = RelayRequest()
            asked.append((self._begin(kind, payload, request), request))
            if number >= _AHEAD:
                self._await(asked[number - _AHEAD][1], timeout)
        for tag, request in asked:
            self._await(request, timeout)
            self.forget(tag)
        error = next((request.error for _, request in asked if request.error), None)
        if error:
            raise error
        return [bytes(request.answer) for _, request in asked]

    def spawn(
        self, command: Iterable[bytes], directory: bytes, environment: Mapping[bytes, bytes],
        size: tuple[int, int], out: Sink, err: Sink, timeout: float,
    ) -> RemoteProcess:  # fmt: skip
        """Start a process; on a terminal of `size` rows and columns unless that is (0, 0). Raises OSError."""
        process = RemoteProcess(self, out, err)
        variables = [name + b"=" + value for name, value in environment.items()]
        lists = ([directory], list(command), variables)
        payload = struct.pack("<HH", *size) + b"".join(pack_strings(each) for each in lists)
        process.tag = self._begin(MessageKind.SPAWN, payload, process)
        self._await(process, timeout)
        if process.error:
            self.forget(process.tag)
            raise process.error
        return process

    def _await(self, request: RelayRequest, timeout: float) -> None:
        """Wait for the end of a request's answer. Raises MachineGone after ``timeout`` seconds of silence; an answer
        that is arriving may take longer."""
        asked = time.monotonic()
        while not request.done:
            left = max(asked, self._heard) + timeout - time.monotonic()
            if left <= 0:
                what = f"no answer from the relay within {timeout:g} s"
                raise self._lose(MachineGone("relay-silent", what, self._silent()))
            self.pump(left)

    def _lose(self, error: MachineGone) -> MachineGone:
        """Note that the relay is lost, with the error that all later requests raise, too; returns that error."""
        self._lost = error
        return error

    def _begin(self, kind: MessageKind, payload: bytes, request: RelayRequest) -> int:
        self._last_tag = self._last_tag % 0xFFFF_FFFF + 1
        self._open[self._last_tag] = request
        self.post(kind, self._last_tag, payload)
        return self._last_tag

    def post(self, kind: MessageKind, tag: int, payload: bytes) -> None:
        """Send a message: as much now as the stream has room for, and the rest whenever a caller waits."""
        if self._lost is not None:
            raise self._lost
        if len(payload) > LARGEST:
            raise TargetError("relay-broken", f"a message of {len(payload)} bytes is too long for the relay")
        self._unsent += framed(kind, payload, tag)
        self._send()

    def forget(self, tag: int) -> None:
        self._open.pop(tag, None)

    def until(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """Serve the stream until `reached()`; returns False when that takes longer than `timeout` seconds. Raises
        TargetError."""
        limit = None if timeout is None else time.monotonic() + timeout
        while not reached():
            left = None if limit is None else limit - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.pump(left)
        return True

    def pump(self, timeout: float | None, others: Sequence[int] = ()) -> list[int]:
        """Wait until bytes can be read or written, for at most `timeout` seconds, and take in what has come; returns
        those of the descriptors `others` that can be read, which also end the wait. Raises TargetError."""
        writers = [self.sink] if self._unsent else []
        readable, writable = wire.ready([self.source, *others], writers, timeout)
        if writable:
            self._send()
        if self.source in readable:
            self._receive()
        return [each for each in others if each in readable]

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self.sink, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # reading will find the end of the stream, after the relay's last messages
            self._unsent.clear()

    def _receive(self) -> None:
        try:
            data = os.read(self.source, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise self._lose(self._gone() if self._gone else MachineGone("relay-gone", "the relay has ended"))
        self._received.add(data)
        self._heard = time.monotonic()
        try:
            while (message := self._received.next()) is not None:
                self._dispatch(*message)
        except TooLarge as error:
            raise self._lose(_nonsense(str(error))) from None
        except MachineGone as error:
            raise self._lose(error) from None

    def _dispatch(self, kind: int, tag: int, payload: bytes) -> None:
        if tag in self._open:
            self._open[tag].take(kind, payload)
        elif tag == 0 and not self.release:
            self.release = _release(kind, payload)
        elif tag == 0:
            raise _nonsense(payload[4:].decode(errors="replace"))


def _release(kind: int, payload: bytes) -> str:
    expected = MAGIC + struct.pack("<I", VERSION)
    if kind != MessageKind.HELLO or not payload.startswith(expected):
        raise _nonsense("something other than a relay of this version answers")
    return payload[len(expected) :].decode(errors="replace")


def _nonsense(what: str) -> MachineGone:
    return MachineGone("relay-broken", f"the relay sent bytes that make no sense: {what}")

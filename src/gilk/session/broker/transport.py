# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between a broker and its clients: JSON, bytes after it, and file descriptors (targets/framing.py, WORDS).

The broker believes nothing that it is sent, and waits for nobody: half a message waits in a buffer, an answer that the
client does not read waits in another, and bytes that are no message end the line.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from gilk.targets.framing import FrameReader, MessageKind, TooLarge, framed
from gilk.targets.wire import readable
from gilk.values import dataclass

_SIZE = struct.Struct("<I")  # the length of the JSON in bytes
_CHUNK = 1 << 16
_ONE_FD = socket.CMSG_LEN(array.array("i").itemsize)  # room for one descriptor; the kernel closes any others
MOST = 128 << 20  # bytes of a message
MOST_FROM_STRANGERS = 4096
_SOON = 1.0  # seconds within which most answers come


class Closed(Exception):
    """The other end has gone, or has sent bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Message:
    words: dict[str, Any]
    content: bytes = b""
    fd: int = -1


def packed(words: dict[str, Any], content: bytes = b"") -> bytes:
    body = json.dumps(words, separators=(",", ":")).encode()
    return framed(MessageKind.WORDS, _SIZE.pack(len(body)) + body + content)


def gone(end: socket.socket) -> bool:
    """Whether the other end of a line has been closed, or sends no more."""
    line = select.poll()
    line.register(end, select.POLLRDHUP)
    return bool(line.poll(0))


def send(end: socket.socket, data: bytes, fd: int = -1) -> int:
    """Send bytes, with a descriptor unless ``fd`` is -1; returns how many bytes went. Raises OSError."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
    return end.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


class Inbox:
    """Makes messages of the bytes that arrive. ``most``: the largest message, in bytes. ``takes_fds``: whether to
    receive descriptors; if not, the kernel closes them."""

    def __init__(self, end: socket.socket, most: int, takes_fds: bool) -> None:
        self.takes_fds = takes_fds
        self._end = end
        self._frames = FrameReader(most)
        self._fd = -1

    def read(self) -> None:
        """Read the bytes that have come. Raises Closed, BlockingIOError, TimeoutError."""
        room = _ONE_FD if self.takes_fds else 0
        try:
            data, ancillary, _, _ = self._end.recvmsg(_CHUNK, room, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            raise Closed from None
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._keep(array.array("i", content[:4])[0])
        if not data:
            raise Closed
        self._frames.add(data)

    def _keep(self, fd: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd

    def next(self) -> Message | None:
        """The next whole message, None if there is none yet. Raises Closed."""
        try:
            message = self._frames.next()
        except TooLarge:
            raise Closed from None
        if message is None:
            return None
        words, content = _parts(*message)
        fd, self._fd = self._fd, -1
        return Message(words, content, fd)

    def trust(self) -> None:
        """Accept messages of up to MOST bytes from now on."""
        self._frames.most = MOST

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parts(kind: int, tag: int, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The words and the bytes of a message. Raises Closed."""
    if kind != MessageKind.WORDS or tag or len(body) < _SIZE.size:
        raise Closed
    end = _SIZE.size + _SIZE.unpack_from(body)[0]
    if end > len(body):
        raise Closed
    return _read(body[_SIZE.size : end]), body[end:]


def _read(text: bytes) -> dict[str, Any]:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        raise Closed from None
    if not isinstance(words, dict):
        raise Closed
    return words


class Line:
    """A client's end of the connection to a broker."""

    def __init__(
        self, end: socket.socket, patience: float, works: Callable[[], bool] = lambda: False, most: float = 3600.0,
        largest: int = MOST,
    ) -> None:  # fmt: skip
        """``patience``: how many seconds an answer may take. If the broker ``works`` at it when these are over, it has
        as many again, ``most`` in all. ``largest``: the most bytes of an answer."""
        end.settimeout(patience)
        self._patience, self._works, self._most = patience, works, most
        self._end = end
        self._inbox = Inbox(end, largest, takes_fds=True)

    def ask(self, words: dict[str, Any], content: bytes = b"", fd: int = -1) -> Message:
        """Send a request, and return the answer. Raises Closed, TimeoutError; the line cannot be used after either.

        A broker that has failed has sent the reason before it went: that is the answer then.
        """
        data = memoryview(packed(words, content))
        try:
            sent = send(self._end, data[:_CHUNK].tobytes(), fd)
            if sent < len(data):  # sendall of nothing fails if the other end has answered and gone
                self._end.sendall(data[sent:])
        except TimeoutError:
            raise
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError:
            raise Closed from None
        deadline = time.monotonic() + self._most
        while (answer := self._inbox.next()) is None:
            self._wait(deadline)
            self._inbox.read()
        return answer

    def _wait(self, deadline: float) -> None:
        """Wait for more of the answer. Most answers come soon, and nothing is found out about the broker then. Raises
        TimeoutError."""
        if time.monotonic() > deadline:  # an answer may also come so slowly that it never ends
            raise TimeoutError
        soon = min(_SOON, self._patience)
        if readable(self._end.fileno(), soon):
            return
        self._works()
        patience = self._patience - soon
        while not readable(self._end.fileno(), patience):
            if time.monotonic() > deadline or not self._works():
                raise TimeoutError
            patience = self._patience

    def is_open(self) -> bool:
        """Whether the broker is still there. It sends nothing unasked but why it has failed, so that readable bytes
        mean the end."""
        return not readable(self._end.fileno(), 0)

    def end(self, seconds: float) -> None:
        """Send no more, and wait, for ``seconds`` at most, until all that this client had is out."""
        with contextlib.suppress(OSError):
            self._end.settimeout(seconds)
            self._end.shutdown(socket.SHUT_WR)
            while self._end.recv(_CHUNK):
                pass
        self.close()

    def close(self) -> None:
        self._inbox.close()
        self._end.close()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between a broker and its clients: JSON, bytes behind it, and file descriptors (targets/framing.py, WORDS).

The broker believes nothing of what it is sent, and waits for nobody: half a message waits in a buffer, an answer that
is not read waits in another, and what is no message ends the line.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
from typing import Any

from gilk.targets.framing import FrameReader, MessageKind, TooLarge, framed
from gilk.targets.wire import readable
from gilk.values import dataclass

_SIZE = struct.Struct("<I")  # bytes of JSON
_CHUNK = 1 << 16
_ONE_FD = socket.CMSG_LEN(array.array("i").itemsize)  # the kernel closes what there is no room for
MOST = 128 << 20  # bytes of a message
MOST_FROM_STRANGERS = 4096


class Closed(Exception):
    """The other end has gone, or what it says is no message."""


@dataclass(frozen=True, slots=True)
class Message:
    words: dict[str, Any]
    content: bytes = b""
    fd: int = -1


def packed(words: dict[str, Any], content: bytes = b"") -> bytes:
    body = json.dumps(words, separators=(",", ":")).encode()
    return framed(MessageKind.WORDS, _SIZE.pack(len(body)) + body + content)


def send(end: socket.socket, data: bytes, fd: int = -1) -> int:
    """How much of it went. Raises OSError."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
    return end.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


class Inbox:
    """Makes messages of what arrives. ``most``: bytes that one may have. ``takes_fds``: whether descriptors are wanted;
    the kernel closes those that are not."""

    def __init__(self, end: socket.socket, most: int, takes_fds: bool) -> None:
        self.takes_fds = takes_fds
        self._end = end
        self._frames = FrameReader(most)
        self._fd = -1

    def read(self) -> None:
        """Take in the bytes that have come. Raises Closed, BlockingIOError, TimeoutError."""
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
        """The next whole one. Raises Closed."""
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
        """From now on messages may be as long as they need to be."""
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
    """A consumer's end."""

    def __init__(self, end: socket.socket, patience: float) -> None:
        """``patience``: seconds that an answer may take."""
        end.settimeout(patience)
        self._end = end
        self._inbox = Inbox(end, MOST, takes_fds=True)

    def ask(self, words: dict[str, Any], content: bytes = b"", fd: int = -1) -> Message:
        """The answer. Raises Closed, TimeoutError: nothing can be asked after either."""
        data = memoryview(packed(words, content))
        try:
            sent = send(self._end, data[:_CHUNK].tobytes(), fd)
            if sent < len(data):  # sending nothing fails, too, where the other has answered and gone by now
                self._end.sendall(data[sent:])
        except TimeoutError:
            raise
        except OSError:
            raise Closed from None
        while (answer := self._inbox.next()) is None:
            self._inbox.read()
        return answer

    def is_open(self) -> bool:
        """Nothing comes unasked: what can be read is the end."""
        return not readable(self._end.fileno(), 0)

    def end(self, seconds: float) -> None:
        """Ask nothing more, and wait until all is out that we had: so long at most."""
        with contextlib.suppress(OSError):
            self._end.settimeout(seconds)
            self._end.shutdown(socket.SHUT_WR)
            while self._end.recv(_CHUNK):
                pass
        self.close()

    def close(self) -> None:
        self._inbox.close()
        self._end.close()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between the server and its children: JSON behind its length, four bytes, little-endian.

A child is given two descriptors, one to read from and one to write to. It ends when its input ends, since then the
server has ended in whatever way.
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from gilk.errors import GilkError, UsageError

LENGTH: Final = struct.Struct("<I")
MOST: Final = 64 << 20  # the most bytes of a message
Message = dict[str, Any]
Answers = Mapping[str, Callable[..., dict[str, Any]]]  # to questions, by name


class ServerEnded(Exception):
    """The server has ended: the other end of the channel is closed."""


def told(error: GilkError) -> Message:
    """The error as a part of a message."""
    return {"slug": error.slug, "message": error.message, "hint": error.hint}


def answered(message: Message, answers: Answers) -> Message:
    """The answer to a question, or its error."""
    try:
        if message["ask"] not in answers:
            raise UsageError("bad-request", f"there is no question {message['ask']!r}")
        return {"id": message["id"], "ok": answers[message["ask"]](**message["given"])}
    except GilkError as error:
        return {"id": message["id"], "error": told(error)}


def packed(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(body)) + body


def unpacked(body: bytes) -> Message:
    """The message in ``body``. Raises ValueError."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("a message is an object")
    return found


class ServerChannel:
    """The child's end of the channel."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing

    @classmethod
    def given(cls) -> ServerChannel:
        """The channel whose descriptors are on the command line; processes started from here do not inherit it."""
        reading, writing = map(int, sys.argv[1:3])
        os.set_inheritable(reading, False)
        os.set_inheritable(writing, False)
        return cls(reading, writing)

    def fileno(self) -> int:
        """The descriptor that can be read when there is a message, or the end of the input."""
        return self._reading

    def waits(self, seconds: float) -> bool:
        """Whether there is something to read, or the end of the input, within that time."""
        return bool(select.select([self._reading], [], [], seconds)[0])

    def receive(self) -> Message:
        """The next message. Raises ServerEnded."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        if length > MOST:
            raise ServerEnded
        return unpacked(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = os.read(self._reading, count - len(parts))
            if not part:
                raise ServerEnded
            parts += part
        return bytes(parts)

    def send(self, message: Message) -> None:
        """Send a message. Raises ServerEnded."""
        data = memoryview(packed(message))
        try:
            while data:
                data = data[os.write(self._writing, data) :]
        except BrokenPipeError:
            raise ServerEnded from None

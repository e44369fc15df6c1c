# SPDX-License-Identifier: LGPL-2.1-or-later
"""The framing of all messages between processes of gilk: clients, keepers, brokers, relays and workers.

A message is `HEADER` (bytes of the body, tag, kind) and a body. All numbers are little-endian. An answer has the tag of
its request; where one request waits for its answer before the next, tags are 0. The kind says what the body is:

    VALUE    a pickled value, between two processes of one program that one user started (targets/wire.py). File
             descriptors may come with its first byte.
    WORDS    a u32, the number of bytes of JSON; the JSON; bytes that belong to it. Between a broker and its clients,
             which do not trust each other (session/broker/transport.py). One descriptor may come with it.
    others   between a client and a relay (targets/kernel/messages.py)

Each end of a stream accepts certain kinds; any other ends the stream. A relay has this module too, so it needs nothing
but the standard library.
"""

from __future__ import annotations

import struct
from enum import IntEnum

HEADER = struct.Struct("<IIB")


class MessageKind(IntEnum):
    """The kind of a message: FILE to LEND go from a client to a relay, HELLO to EXIT from a relay to its client."""

    FILE = 1
    CORE = 2
    OPEN = 3
    CONTROL = 4
    DRAIN = 5
    SHUT = 6
    SPAWN = 7
    INPUT = 8
    SIGNAL = 9
    WINDOW = 10
    LEND = 11
    VALUE = 32
    WORDS = 33
    HELLO = 64
    PART = 65
    DONE = 66
    FAIL = 67
    OUT = 68
    ERR = 69
    TOOK = 70
    EXIT = 71


class TooLarge(Exception):
    """A message's header says that its body has ``size`` bytes, more than allowed."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a message of {size} bytes")
        self.size = size


def framed(kind: int, body: bytes, tag: int = 0) -> bytes:
    """A whole message, header and body."""
    return HEADER.pack(len(body), tag, kind) + body


class FrameReader:
    """Splits a stream of bytes into messages, however the bytes arrive. ``most``: the largest number of bytes that a
    body may have."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data

    def next(self) -> tuple[int, int, bytes] | None:
        """The kind, tag and body of the next message; None if it is not complete yet. Raises TooLarge."""
        if len(self._data) < HEADER.size:
            return None
        size, tag, kind = HEADER.unpack_from(self._data)
        if size > self.most:
            raise TooLarge(size)
        end = HEADER.size + size
        if len(self._data) < end:
            return None
        body = bytes(self._data[HEADER.size : end])
        del self._data[:end]
        return kind, tag, body

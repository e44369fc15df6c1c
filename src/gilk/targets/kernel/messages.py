# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages between a RelayLink and its relay.

They are framed as all messages are (targets/framing.py); the client chooses the tag of a request. A list of strings is
their count, then each one's length and bytes.

    client -> relay
      FILE     path                                 read the whole file
      CORE     (address u64, size u64)*             kernel memory, one range after another
      OPEN     -                                    open /dev/ilk
      CONTROL  request u64, buffer                  ioctl on it, given the buffer's address; answer: the buffer
      LEND     request u64, place u32, bytes of the path u32, path, buffer: like CONTROL, with a descriptor of that
               file, which must be a regular one, as an i32 at that place of the buffer
      DRAIN    most u32                             read() of it
      SHUT     -                                    close it: the driver undoes everything
      SPAWN    rows u16, columns u16, directory (a list of one), arguments, environment:
               with rows, on a terminal of that size; with none, on three pipes
      INPUT    bytes for the process of that tag; none: the end of its input
      SIGNAL   number u32, for its process group
      WINDOW   rows u16, columns u16: the terminal's new size

    relay -> client
      HELLO    magic, version u32, kernel release; tag 0; once, first
      PART     the next part of an answer
      DONE     the end of an answer; for SPAWN: the process runs
      FAIL     errno u32, text: instead of DONE
      OUT ERR  output of a process
      TOOK     u32 bytes of INPUT that the process has read: the client has at most UNDER_WAY unread
      EXIT     i32: its status, or minus the signal that killed it; nothing of that tag follows

INPUT, SIGNAL and WINDOW have no answer, and no effect once the process has ended. A malformed request is answered by
FAIL; malformed framing ends the relay, as the end of the stream does: processes are killed, and /dev/ilk is closed.
"""

from __future__ import annotations

import struct

MAGIC, VERSION = b"gilk-relay", 1
LARGEST = 64 << 20  # bytes of payload: a plan for the whole kernel is smaller
PIECE = 1 << 20  # bytes of one PART of an answer
UNDER_WAY = 256 << 10
LARGEST_ANSWER = 1 << 30  # bytes of all parts of an answer, and of a file: a sparse file can claim any size


class RequestRefused(Exception):
    """A malformed request."""


def pack_strings(strings: list[bytes]) -> bytes:
    return struct.pack("<I", len(strings)) + b"".join(struct.pack("<I", len(each)) + each for each in strings)


def unpack_strings(payload: bytes, at: int) -> tuple[list[bytes], int]:
    """A list of strings, and the offset where it ends. Raises RequestRefused."""
    count, at = _number(payload, at)
    strings = []
    for _ in range(count):
        length, at = _number(payload, at)
        if at + length > len(payload):
            raise RequestRefused("a string goes beyond the message")
        strings.append(payload[at : at + length])
        at += length
    return strings, at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(payload):
        raise RequestRefused("a number goes beyond the message")
    return int.from_bytes(payload[at : at + 4], "little"), at + 4


def fields(layout: str, payload: bytes) -> tuple[int, ...]:
    """The numbers of a payload. Raises RequestRefused when `payload` does not have exactly that layout."""
    if struct.calcsize(layout) != len(payload):
        raise RequestRefused(f"{len(payload)} bytes where {struct.calcsize(layout)} belong")
    return struct.unpack(layout, payload)

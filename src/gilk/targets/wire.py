# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between client and keeper: pickled values over a socket pair, and file descriptors (framing.py).

Both ends are the same program, started by one user; nobody else can reach the socket.
"""

from __future__ import annotations

import array
import pickle
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from gilk.targets.framing import HEADER, MessageKind

_MOST_FDS = 4  # of one message
PARTING: Final = 1.0  # seconds that the other end may hold up the end of this one, by reading nothing
_ROUND = 0.1  # seconds between two calls of ``meanwhile``


class ChannelClosed(Exception):
    """The other end is gone."""


def send(
    channel: socket.socket, value: Any, fds: tuple[int, ...] = (), meanwhile: Callable[[], None] | None = None
) -> None:
    """Send a value, with file descriptors. ``meanwhile`` is called again and again while the other end does not take
    it. Raises ChannelClosed."""
    body = pickle.dumps(value, protocol=5)
    header = HEADER.pack(len(body), 0, MessageKind.VALUE)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        channel.sendmsg([header], ancillary)
        if meanwhile is None:
            channel.sendall(body)
        else:
            _send_patiently(channel, memoryview(body), meanwhile)
    except (BrokenPipeError, ConnectionResetError):
        raise ChannelClosed from None


def _send_patiently(channel: socket.socket, body: memoryview, meanwhile: Callable[[], None]) -> None:
    while body:
        if ready([], [channel.fileno()], _ROUND)[1]:
            with suppress(BlockingIOError):
                body = body[channel.send(body, socket.MSG_DONTWAIT) :]
        else:
            meanwhile()


def receive(channel: socket.socket) -> tuple[Any, tuple[int, ...]]:
    """A value, and the file descriptors that came with it. Raises ChannelClosed."""
    header, fds = _receive_header(channel)
    size, _, kind = HEADER.unpack(header)
    if kind != MessageKind.VALUE:
        raise ChannelClosed
    return pickle.loads(_receive_exactly(channel, size)), fds


def readable(descriptor: int, seconds: float | None = None) -> bool:
    """Whether there is something to read, or the end of the stream; waits for that, at most ``seconds`` long unless
    None."""
    return bool(ready([descriptor], seconds=seconds)[0])


def ready(
    reading: Sequence[int], writing: Sequence[int] = (), seconds: float | None = None
) -> tuple[list[int], list[int]]:
    """The descriptors of ``reading`` that can be read or have ended, and those of ``writing`` that can be written to or
    have no reader left; waits for the first of them, at most ``seconds`` long unless None."""
    wanted = dict.fromkeys(reading, select.POLLIN)
    for descriptor in writing:
        wanted[descriptor] = wanted.get(descriptor, 0) | select.POLLOUT
    waiting = select.poll()  # select(2) has no room for descriptors beyond 1023
    for descriptor, events in wanted.items():
        waiting.register(descriptor, events)
    found = dict(waiting.poll(None if seconds is None else 1000 * seconds))
    return (
        [each for each in reading if found.get(each, 0) & ~select.POLLOUT],
        [each for each in writing if found.get(each, 0) & ~select.POLLIN],
    )


def _receive_header(channel: socket.socket) -> tuple[bytes, tuple[int, ...]]:
    fds = array.array("i")
    try:
        data, ancillary, _, _ = channel.recvmsg(
            HEADER.size, socket.CMSG_SPACE(_MOST_FDS * fds.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        raise ChannelClosed from None
    if not data:
        raise ChannelClosed
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return data + _receive_exactly(channel, HEADER.size - len(data)), tuple(fds)


def _receive_exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        try:
            got = channel.recv_into(view)
        except ConnectionResetError:
            raise ChannelClosed from None
        if not got:
            raise ChannelClosed
        view = view[got:]
    return bytes(data)

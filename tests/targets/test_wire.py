# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between client and keeper."""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from gilk.errors import TargetError
from gilk.targets import wire
from gilk.targets.framing import MessageKind, framed
from gilk.targets.kernel.channel import Channel


def test_values_errors_and_descriptors_arrive() -> None:
    one, other = socket.socketpair()
    readable, writable = os.pipe()
    wire.send(one, ("name", (1, b"x" * 100, TargetError("busy", "m", "h"))), (writable,))
    (name, (number, data, error)), fds = wire.receive(other)
    assert (name, number, data) == ("name", 1, b"x" * 100)
    assert (error.slug, error.message, error.hint) == ("busy", "m", "h")
    os.write(fds[0], b"!")
    assert os.read(readable, 1) == b"!"
    for fd in (readable, writable, *fds):
        os.close(fd)


def test_a_large_message_arrives_whole() -> None:
    one, other = socket.socketpair()
    content = os.urandom(5_000_000)
    sender = threading.Thread(target=wire.send, args=(one, content))
    sender.start()
    assert wire.receive(other)[0] == content
    sender.join()


def test_a_message_of_another_kind_is_not_unpickled() -> None:
    one, other = socket.socketpair()
    one.sendall(framed(MessageKind.WORDS, pickle.dumps("a value")) + framed(MessageKind.VALUE, pickle.dumps("a value")))
    with pytest.raises(wire.ChannelClosed):
        wire.receive(other)


def test_a_closed_channel_is_detected() -> None:
    one, other = socket.socketpair()
    one.close()
    with pytest.raises(wire.ChannelClosed):
        wire.receive(other)
    with pytest.raises(wire.ChannelClosed):
        for _ in range(100):
            wire.send(other, b"x" * 100_000)


@pytest.fixture
def high() -> Iterator[Callable[[int], int]]:
    """A function that moves a descriptor to a number that is too high for select(2)."""
    before, made = resource.getrlimit(resource.RLIMIT_NOFILE), list[int]()
    if before[1] < 4096:
        pytest.skip("nobody may have so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))

    def moved(descriptor: int) -> int:
        made.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 2000))
        os.close(descriptor)
        return made[-1]

    yield moved
    for descriptor in made:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_ready_channels_are_found(high: Callable[[int], int]) -> None:
    (silent, quiet), (reading, writing) = map(high, os.pipe()), map(high, os.pipe())
    assert wire.ready([silent, reading], seconds=0) == ([], [])
    assert wire.ready([silent], [writing]) == ([], [writing])
    os.write(writing, b"x")
    assert wire.ready([silent, reading], [writing, quiet]) == ([reading], [writing, quiet])
    assert wire.readable(reading) and not wire.readable(silent, 0.01)
    while True:
        os.set_blocking(quiet, False)
        try:
            os.write(quiet, bytes(4096))
        except BlockingIOError:
            break
    assert wire.ready([silent], [quiet]) == ([silent], [])


def test_a_relay_may_be_at_descriptors_of_any_number(high: Callable[[int], int]) -> None:
    near, far = socket.socketpair()
    other, writing = map(high, os.pipe())
    os.write(writing, b"x")
    channel = Channel(stream := high(near.detach()), stream)
    assert channel.pump(1.0, [other]) == [other]
    far.close()

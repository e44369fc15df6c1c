# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between client and keeper."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from gilk.errors import TargetError
from gilk.target import wire


def test_values_errors_and_descriptors_arrive() -> None:
    one, other = socket.socketpair()
    readable, writable = os.pipe()
    wire.send(one, ("name", (1, b"x" * 100, TargetError("busy", "m", "h"))), (writable,))
    (name, (number, data, error)), fds = wire.receive(other)
    assert (name, number, data) == ("name", 1, b"x" * 100)
    assert (error.slug, error.message, error.hint) == ("busy", "m", "h")
    os.write(fds[0], b"!")
    assert os.read(readable, 1) == b"!"


def test_a_large_message_arrives_whole() -> None:
    one, other = socket.socketpair()
    content = os.urandom(5_000_000)
    sender = threading.Thread(target=wire.send, args=(one, content))
    sender.start()
    assert wire.receive(other)[0] == content
    sender.join()


def test_the_other_end_going_is_noticed() -> None:
    one, other = socket.socketpair()
    one.close()
    with pytest.raises(wire.Closed):
        wire.receive(other)
    with pytest.raises(wire.Closed):
        for _ in range(100):
            wire.send(other, b"x" * 100_000)

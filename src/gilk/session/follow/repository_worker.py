# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that plans one image for the repository: ``python -m gilk.session.follow.repository_worker FD``.

It works beside what is being watched, and lets that go first.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from gilk.errors import GilkError
from gilk.image.elf import load
from gilk.session.follow import timing
from gilk.splice.allocator import OutOfSpace
from gilk.target import wire
from gilk.target.image import analyse

_NICE = 5


def serve(channel: socket.socket) -> None:
    """Serve one request: the image's path, the key of its plans, and the shape. Raises Closed when nobody waits any
    more."""
    (path, key, shape), _ = wire.receive(channel)
    try:
        image = load(path)
        if timing.key(image, shape) != key:  # the file has been replaced
            wire.send(channel, ("none",))
            return
        made = timing.make(analyse(image), shape, lambda done, of: wire.send(channel, ("told", done, of)))
    except (OutOfSpace, OverflowError, MemoryError, GilkError):
        wire.send(channel, ("none",))
        return
    wire.send(channel, ("made", made.to_arrays()))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's: who asked sees to it that this ends
    os.nice(_NICE)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    try:
        serve(channel)
    except wire.Closed:
        sys.exit(1)


if __name__ == "__main__":
    main()

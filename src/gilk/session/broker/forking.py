# SPDX-License-Identifier: LGPL-2.1-or-later
"""The birth of a broker: a fork of the first consumer, which has everything that a broker needs in memory."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket

from gilk.session.broker.broker import Broker
from gilk.targets.apart import BROKER, fork, stand_apart
from gilk.targets.process import Process


def fork_broker(process: Process) -> tuple[socket.socket, int]:
    """Fork a broker that has the process from now on; returns a line to it, and its pid; the broker is our child."""
    listener = process.meeting.listener
    mine, theirs = socket.socketpair()
    broker = fork()
    if not broker:
        try:
            _be_broker(process, listener, theirs)
        finally:
            os._exit(0)
    theirs.close()
    process.meeting.close()
    process.keeper.hand_over()
    return mine, broker


def _be_broker(process: Process, listener: socket.socket | None, first: socket.socket) -> None:
    gc.disable()  # the consumer's objects are never looked at again
    signal.set_wakeup_fd(-1)
    stand_apart(BROKER)
    ends = [end.fileno() for end in (first, listener) if end is not None]
    _let_go_of_files({*ends, *process.keeper.files, *process.files.descriptors})
    gc.freeze()
    gc.enable()
    Broker(process, listener, first).serve()


def _let_go_of_files(kept: set[int]) -> None:
    """Make all other descriptors lead to /dev/null. Their numbers stay taken, since leftover objects may still close
    them."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept | {nothing}:
            with contextlib.suppress(OSError):  # the descriptor of the directory itself is closed by now
                os.fstat(int(name))
                os.dup2(nothing, int(name), inheritable=int(name) <= 2)
    os.close(nothing)

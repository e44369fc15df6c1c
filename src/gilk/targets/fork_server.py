# SPDX-License-Identifier: LGPL-2.1-or-later
"""The fork server: forks keepers, each of which costs a fork, and the pages that it writes, instead of a start of
Python.

It runs as ``python -m gilk.targets.fork_server FD``. A request brings a keeper's end of its channel; the answer is the
number of the keeper and a pidfd of it. The server has no other files and threads, so its forks have none either. It
ends after the last of its keepers, or when its client has gone or lets it go, or when it cannot fork; keepers go on
then.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress

from gilk.targets import serving, wire
from gilk.targets.apart import FORK_SERVER, fork, stand_apart


class ForkServer:
    """Forks keepers for one client, and reaps them. ``channel`` leads to the client."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._keepers: dict[int, int] = {}  # pidfd -> pid

    def serve(self) -> None:
        with suppress(wire.ChannelClosed, OSError):  # the client sees the end, and does without us
            self._answer()
            while self._keepers:
                came, _ = wire.ready([self._channel.fileno(), *self._keepers])
                for ended in self._keepers.keys() & set(came):
                    os.waitpid(self._keepers.pop(ended), 0)
                    os.close(ended)
                if self._channel.fileno() in came:
                    self._answer()

    def _answer(self) -> None:
        """Fork a keeper. Raises wire.ChannelClosed, OSError."""
        _, fds = wire.receive(self._channel)
        if len(fds) != 1:
            raise wire.ChannelClosed  # the descriptor could not be received: too many are open
        keeper = fork()
        if not keeper:
            self._become_keeper(fds[0])
        os.close(fds[0])
        ended = os.pidfd_open(keeper)
        self._keepers[ended] = keeper
        wire.send(self._channel, keeper, (ended,))

    def _become_keeper(self, end: int) -> None:
        try:
            for fd in (self._channel.fileno(), *self._keepers):
                os.close(fd)
            serving.serve(socket.socket(fileno=end))
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    stand_apart(FORK_SERVER)
    gc.collect()
    gc.freeze()  # keepers share these pages as long as no garbage collection touches them
    ForkServer(channel).serve()
    os._exit(0)  # at once: the client waits for our end, and nothing is left to tidy


if __name__ == "__main__":
    main()

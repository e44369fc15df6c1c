# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that forks keepers: each of them costs a fork, and the pages that it writes, instead of a start of Python.

Run as ``python -m gilk.targets.fork_server FD``. A request brings a keeper's end of its channel; the answer is the
number of the keeper and a pidfd of it. It has no files and threads besides, so its forks have none either. It ends
after the last of its keepers, or when its client has gone.
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
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._keepers: dict[int, int] = {}  # pidfd -> pid

    def serve(self) -> None:
        with suppress(wire.ChannelClosed):
            self._answer()
            while self._keepers:
                came, _ = wire.ready([self._channel.fileno(), *self._keepers])
                for ended in self._keepers.keys() & set(came):
                    os.waitpid(self._keepers.pop(ended), 0)
                    os.close(ended)
                if self._channel.fileno() in came:
                    self._answer()

    def _answer(self) -> None:
        _, (theirs,) = wire.receive(self._channel)
        keeper = fork()
        if not keeper:
            self._become_keeper(socket.socket(fileno=theirs))
        os.close(theirs)
        ended = os.pidfd_open(keeper)
        self._keepers[ended] = keeper
        wire.send(self._channel, keeper, (ended,))

    def _become_keeper(self, channel: socket.socket) -> None:
        try:
            for fd in (self._channel.fileno(), *self._keepers):
                os.close(fd)
            serving.serve(channel)
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)


def main() -> None:
    stand_apart(FORK_SERVER)
    gc.collect()
    gc.freeze()  # keepers share these pages for as long as nobody looks at them
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()

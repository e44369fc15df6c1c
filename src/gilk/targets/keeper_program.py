# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's process (serving.py) as a program of its own: ``python -m gilk.targets.keeper_program FD``.

It blocks SIGCHLD and SIGALRM before it imports other modules. Some of these begin threads, which would take the
signals, and then nobody would tell the keeper that a thread of the target has stopped.
"""

from __future__ import annotations

import signal
import socket
import sys


def main() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGALRM))
    from gilk.targets import serving  # late, see above

    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)  # it was inherited, but launched programs must not inherit it
    serving.serve(channel, before)


if __name__ == "__main__":
    main()

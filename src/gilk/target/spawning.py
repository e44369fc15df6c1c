# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's process, started: also ahead of its use, since it takes as long as its client does to import things."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from gilk.values import dataclass

_ahead: list[Spawned] = []


@dataclass(frozen=True)
class Spawned:
    """``ended`` is a pidfd. It goes when ``channel`` is closed."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    ended: int


def begin() -> None:
    """One is going to be wanted soon."""
    _ahead.append(_spawn())


def spawned() -> Spawned:
    """That one, or another."""
    return _ahead.pop() if _ahead else _spawn()


def _spawn() -> Spawned:
    mine, theirs = socket.socketpair()
    # -P: nothing is imported from the current directory, which may be anyone's.
    arguments = [sys.executable, "-P", "-m", "gilk.target.server", str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    theirs.set_inheritable(True)
    # A program launched from there is to have every file that we were given.
    process = subprocess.Popen(arguments, close_fds=False, env=environment)
    theirs.close()
    return Spawned(process, mine, os.pidfd_open(process.pid))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Starts the keeper's process: as a program of its own or, where a command has not begun anything yet, as a fork.

A client that has a keeper already has further ones forked by a fork server (keepers.py).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.targets.apart import fork
from gilk.values import dataclass

if TYPE_CHECKING:
    import subprocess

_ahead: list[Spawned] = []


@dataclass(frozen=True)
class Spawned:
    """A keeper, process ``pid``; ``ended`` is a pidfd. It ends when ``channel`` is closed; ``reap`` is called after
    that."""

    pid: int
    channel: socket.socket
    ended: int
    reap: Callable[[], object]


def begin() -> None:
    """Start a keeper that is going to be needed soon.

    This must be called while the process has one thread, and no files that matter. The modules that both processes need
    are imported only once, which on a slow machine is half of a start.
    """
    _ahead.append(_forked())


def begun() -> Spawned | None:
    """The keeper that begin() has started; None if there is none, or it was taken already."""
    return _ahead.pop() if _ahead else None


def _forked() -> Spawned:
    from gilk.targets import serving  # a late import: the keeper needs more modules than its client

    mine, theirs = socket.socketpair()
    pid = fork()
    if not pid:
        try:
            gc.freeze()  # the collector need not look at the client's objects
            _let_go_of_files(theirs.fileno())
            serving.serve(theirs)
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    theirs.close()
    return Spawned(pid, mine, os.pidfd_open(pid), lambda: _reap(pid))


def _let_go_of_files(kept: int) -> None:
    """Close the files that an executed program would not inherit, except ``kept``."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            if int(name) not in (0, 1, 2, kept) and not os.get_inheritable(int(name)):
                os.close(int(name))


def _reap(pid: int) -> None:
    """Reap a keeper if it has ended; a keeper that has not becomes init's in the end."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def executed() -> Spawned:
    """A keeper that is a program of its own. Raises OSError."""
    # A program that it launches inherits every file that we were given.
    mine, process = started("gilk.targets.keeper_program", files=True)
    return Spawned(process.pid, mine, os.pidfd_open(process.pid), process.poll)


def started(module: str, files: bool) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a process that runs ``module`` and is given the number of its end of a channel; returns our end, and the
    process. Raises OSError.

    ``files``: it inherits all inheritable files, and the standard ones; otherwise only standard error.
    """
    import subprocess  # a late import: a client that forks its keeper does not need it

    mine, theirs = socket.socketpair()
    # -P: nothing is imported from the current directory, which may be anyone's.
    arguments = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    try:
        with theirs:
            if not files:
                nothing, ends = subprocess.DEVNULL, (theirs.fileno(),)
                return mine, subprocess.Popen(arguments, pass_fds=ends, env=environment, stdin=nothing, stdout=nothing)
            theirs.set_inheritable(True)
            return mine, subprocess.Popen(arguments, close_fds=False, env=environment)
    except BaseException:
        mine.close()
        raise

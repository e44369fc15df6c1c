# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's process, started: as a program of its own or, where a command has not begun anything yet, as a fork."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gilk.targets.apart import fork
from gilk.values import dataclass

_ahead: list[Spawned] = []


@dataclass(frozen=True)
class Spawned:
    """Process ``pid``; ``ended`` is a pidfd. It goes when ``channel`` is closed; ``reap`` then waits for it."""

    pid: int
    channel: socket.socket
    ended: int
    reap: Callable[[], object]


def begin() -> None:
    """Start a keeper that is going to be wanted soon.

    To be called while this process has one thread, and no files that matter. The modules that both need are imported
    once, which on a machine with little else to offer is half of a start.
    """
    _ahead.append(_forked())


def spawned() -> Spawned:
    """That one, or another."""
    return _ahead.pop() if _ahead else _executed()


def _forked() -> Spawned:
    from gilk.targets import serving  # it needs what its client does, and more

    mine, theirs = socket.socketpair()
    pid = fork()
    if not pid:
        try:
            gc.freeze()  # what was the client's is never looked at again
            _let_go_of_files(theirs.fileno())
            serving.serve(theirs)
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    theirs.close()
    return Spawned(pid, mine, os.pidfd_open(pid), lambda: _reap(pid))


def _let_go_of_files(kept: int) -> None:
    """Close the files that a program which is executed would not have, except ``kept``."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the directory's own is closed by now
            if int(name) not in (0, 1, 2, kept) and not os.get_inheritable(int(name)):
                os.close(int(name))


def _reap(pid: int) -> None:
    """If it has ended: who does not is let alone, and is init's in the end."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _executed() -> Spawned:
    import subprocess  # here: those who fork need not wait for it

    mine, theirs = socket.socketpair()
    # -P: nothing is imported from the current directory, which may be anyone's.
    arguments = [sys.executable, "-P", "-m", "gilk.targets.serving", str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    theirs.set_inheritable(True)
    # A program launched from there is to have every file that we were given.
    process = subprocess.Popen(arguments, close_fds=False, env=environment)
    theirs.close()
    return Spawned(process.pid, mine, os.pidfd_open(process.pid), process.poll)

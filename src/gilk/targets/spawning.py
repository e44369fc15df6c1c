# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's process, started: as a program of its own or, where a command has not begun anything yet, as a fork. A
client that has one already has further ones forked by a process that is for that alone (fork_server.py)."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.targets import wire
from gilk.targets.alive import is_alive
from gilk.targets.apart import fork
from gilk.values import dataclass

if TYPE_CHECKING:
    import subprocess

_PATIENCE = 60.0  # seconds for a keeper to be forked, by a process that starts first
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


class Keepers:
    """The keepers that this process has started, and the process that forks further ones once there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._server: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def forget(self) -> None:
        """In a fork of this process, which has none."""
        if self._channel is not None:
            self._channel.close()
        self.__dict__.update(Keepers().__dict__)

    def another(self, launches: bool) -> Spawned:
        """``launches``: it is to launch a program, which is to have every file that we were given."""
        with self._lock:
            self._pids = set(filter(is_alive, self._pids))
            made = self._forked() if self._pids and not launches else None
            made = made or _executed()
            self._pids.add(made.pid)
        return made

    def _forked(self) -> Spawned | None:
        """None where it could not be forked."""
        if self._channel is None:
            self._channel, self._server = _started("gilk.targets.fork_server", files=False)
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                self._channel.settimeout(_PATIENCE)
                wire.send(self._channel, None, (theirs.fileno(),))
                pid, (ended,) = wire.receive(self._channel)
            return Spawned(pid, mine, ended, lambda: None)
        except (wire.ChannelClosed, OSError):
            mine.close()
            self._give_up()
            return None

    def _give_up(self) -> None:
        """It ends with its last keeper, and is started again when there are two."""
        assert self._channel is not None and self._server is not None
        self._channel.close()
        self._server.poll()
        self._channel, self._server = None, None


_keepers = Keepers()
os.register_at_fork(after_in_child=_keepers.forget)


def spawned(launches: bool) -> Spawned:
    """A keeper: the one that was begun ahead, or another. ``launches``: it is to launch a program."""
    return _ahead.pop() if _ahead else _keepers.another(launches)


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
    # A program launched from there is to have every file that we were given.
    mine, process = _started("gilk.targets.serving", files=True)
    return Spawned(process.pid, mine, os.pidfd_open(process.pid), process.poll)


def _started(module: str, files: bool) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A channel to a process of its own that runs ``module``, which is given the number of its end. ``files``: it has
    those that can be inherited, and the standard ones; otherwise only standard error."""
    import subprocess  # here: those who fork need not wait for it

    mine, theirs = socket.socketpair()
    # -P: nothing is imported from the current directory, which may be anyone's.
    arguments = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
    package = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    theirs.set_inheritable(True)
    with theirs:
        if not files:
            nothing, ends = subprocess.DEVNULL, (theirs.fileno(),)
            return mine, subprocess.Popen(arguments, pass_fds=ends, env=environment, stdin=nothing, stdout=nothing)
        return mine, subprocess.Popen(arguments, close_fds=False, env=environment)

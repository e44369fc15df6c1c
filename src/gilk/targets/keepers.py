# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keepers of a client: the first is a program of its own; those that are made beside it are forked by a process
that is for that alone (fork_server.py), which goes with the last of them.

Whatever becomes of that process, keepers go on without it, and the next one is a program again.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

from gilk.targets import wire
from gilk.targets.alive import is_alive
from gilk.targets.spawning import Spawned, begun, executed, started
from gilk.targets.status import status_of

_PATIENCE = 60.0  # seconds for a keeper to be forked, by a process that starts first
_FAREWELL = 10.0  # seconds for that process to end
_RIGHTS = (b"Uid", b"Gid", b"Groups", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"NoNewPrivs", b"Seccomp")
_NAMESPACES = ("mnt", "pid_for_children", "user")


def _rights() -> tuple[object, ...]:
    """The limits of what this process may do and see; a keeper of it is held to the same."""
    status = status_of("self")
    links = (os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES)
    return (*(status.get(name) for name in _RIGHTS), *links)


class _ForkServer:
    """The process that forks keepers, as its client sees it; it starts now. Raises OSError."""

    def __init__(self) -> None:
        self.rights = _rights()
        self.keepers: set[int] = set()  # those that are not reaped yet
        self._channel, self._process = started("gilk.targets.fork_server", files=False)
        self._channel.settimeout(_PATIENCE)

    def fork(self) -> Spawned:
        """A keeper, not to be reaped by us. Raises OSError, ValueError, wire.ChannelClosed: then it is of no use any
        more, as it is when this is interrupted."""
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                wire.send(self._channel, None, (theirs.fileno(),))
            pid, (ended,) = wire.receive(self._channel)
        except BaseException:
            mine.close()  # a keeper that is there all the same goes
            raise
        self.keepers.add(pid)
        return Spawned(pid, mine, ended, lambda: _keepers.reaped(pid))

    def let_go(self) -> None:
        """It ends, and this process has no child and no file of it any more."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            if wire.readable(self._channel.fileno(), _FAREWELL) and self._has_ended():
                self._channel.close()
                return
        self.kill()

    def kill(self) -> None:
        """As let_go(), of one that may not listen. Its keepers go on."""
        self._channel.close()
        self._process.kill()
        self._has_ended()

    def forget(self) -> None:
        """In a fork of its client."""
        self._channel.close()
        self._process.poll()  # it is not our child, so nothing is left to be waited for

    def _has_ended(self) -> bool:
        from subprocess import TimeoutExpired  # here: those who have one process need not wait for it

        with suppress(TimeoutExpired):
            self._process.wait(_FAREWELL)
        return self._process.returncode is not None


class Keepers:
    """The keepers that this process has started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._server: _ForkServer | None = None

    def forget(self) -> None:
        """In a fork of this process, which has none; another thread may have been in here at that moment."""
        if self._server is not None:
            self._server.forget()
        self.__dict__.update(Keepers().__dict__)

    def another(self, launches: bool) -> Spawned:
        """``launches``: it is to launch a program, which is to have every file that we were given. Raises OSError."""
        with self._lock:
            self._pids = set(filter(is_alive, self._pids))
            made = (self._forked() if self._pids and not launches else None) or executed()
            self._pids.add(made.pid)
        return made

    def _forked(self) -> Spawned | None:
        """None where it could not be forked."""
        try:
            if self._server is not None and self._server.rights != _rights():
                self._part()
            if self._server is None:
                self._server = _ForkServer()
            return self._server.fork()
        except (wire.ChannelClosed, OSError, ValueError):
            self._part()
            return None
        except BaseException:  # Ctrl-C: the answer that has not come would be taken for the next one's
            self._part()
            raise

    def _part(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.kill()

    def reaped(self, pid: int) -> None:
        """A keeper that was forked has gone, or is let alone; with the last of them goes the process that forked it."""
        with self._lock:
            server = self._server
            if server is None:
                return
            server.keepers.discard(pid)
            if server.keepers:
                return
            self._server = None
        server.let_go()


_keepers = Keepers()
os.register_at_fork(after_in_child=_keepers.forget)


def spawned(launches: bool) -> Spawned:
    """A keeper: the one that was begun ahead, or another. ``launches``: it is to launch a program. Raises OSError."""
    return begun() or _keepers.another(launches)

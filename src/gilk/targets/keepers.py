# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keepers of a client. The first one is a program of its own; further ones are forked by a fork server, a process
that does nothing else (fork_server.py) and ends after the last of them.

If the fork server fails, its keepers go on, and the next keeper is a program of its own again.
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

_PATIENCE = 60.0  # seconds for the fork server to start and fork a keeper
_FAREWELL = 10.0  # seconds for the fork server to end
_RIGHTS = (b"Uid", b"Gid", b"Groups", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"NoNewPrivs", b"Seccomp")
_NAMESPACES = ("mnt", "pid_for_children", "user")


def _rights() -> tuple[object, ...]:
    """Everything that limits what this process may do and see; a keeper inherits the same limits."""
    status = status_of("self")
    links = (os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES)
    return (*(status.get(name) for name in _RIGHTS), *links)


class _ForkServer:
    """The fork server, as its client sees it. Constructing one starts it. Raises OSError."""

    def __init__(self) -> None:
        self.rights = _rights()
        self.keepers: set[int] = set()  # pids of keepers that are not reaped yet
        self._channel, self._process = started("gilk.targets.fork_server", files=False)
        self._channel.settimeout(_PATIENCE)

    def fork(self) -> Spawned:
        """Fork a keeper, which is the fork server's child and not reaped by us. Raises OSError, ValueError,
        wire.ChannelClosed: the server must not be used any more then, nor after an interruption."""
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                wire.send(self._channel, None, (theirs.fileno(),))
            pid, (ended,) = wire.receive(self._channel)
        except BaseException:
            mine.close()  # if the keeper was forked all the same, it ends
            raise
        self.keepers.add(pid)
        return Spawned(pid, mine, ended, lambda: _keepers.reaped(pid))

    def let_go(self) -> None:
        """Have the fork server end, and wait for it; afterwards this process has neither the child nor the channel any
        more."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            if wire.readable(self._channel.fileno(), _FAREWELL) and self._has_ended():
                self._channel.close()
                return
        self.kill()

    def kill(self) -> None:
        """Kill the fork server, which may not respond. Its keepers go on."""
        self._channel.close()
        self._process.kill()
        self._has_ended()

    def forget(self) -> None:
        """Close the channel in a fork of the client, which is not the server's parent."""
        self._channel.close()
        self._process.poll()  # marks it as ended: it is no child of this fork

    def _has_ended(self) -> bool:
        from subprocess import TimeoutExpired  # a late import: it takes time, and most clients have one keeper

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
        """Reset everything in a fork of this process, which has no keepers. Another thread may have held the lock at
        the fork."""
        if self._server is not None:
            self._server.forget()
        self.__dict__.update(Keepers().__dict__)

    def another(self, launches: bool) -> Spawned:
        """A further keeper. ``launches``: it is to launch a program, which inherits every file that this process was
        given. Raises OSError."""
        with self._lock:
            self._pids = set(filter(is_alive, self._pids))
            made = (self._forked() if self._pids and not launches else None) or executed()
            self._pids.add(made.pid)
        return made

    def _forked(self) -> Spawned | None:
        """A keeper made by the fork server; None if it could not be forked."""
        try:
            if self._server is not None and self._server.rights != _rights():
                self._part()
            if self._server is None:
                self._server = _ForkServer()
            return self._server.fork()
        except (wire.ChannelClosed, OSError, ValueError):
            self._part()
            return None
        except BaseException:  # an answer still to come would be taken for the next request's
            self._part()
            raise

    def _part(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.kill()

    def reaped(self, pid: int) -> None:
        """Note that a forked keeper has ended or is not waited for any more. After the last of them, the fork server is
        let go."""
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
    """A keeper: the one that was started ahead (spawning.begin), or another. ``launches``: it is to launch a program.
    Raises OSError."""
    return begun() or _keepers.another(launches)

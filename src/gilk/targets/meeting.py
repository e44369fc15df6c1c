# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where those who trace one process find each other: a name that one of them holds, and the others come to.

The name is an abstract socket's (unix(7)): the kernel gives it to one, and takes it back when the last who has the
socket is gone, so that nothing is ever left behind. Anyone may take such a name, or come to it: both sides look who
the other is, and who comes shows, by a file that only a tracer may open, that the process may be traced by it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import time

from gilk.errors import TargetError
from gilk.targets.ptrace import denied
from gilk.targets.stat import START_TIME, stat_of
from gilk.values import dataclass

_BACKLOG = 128
_PATIENCE = 1.0  # seconds, for who has the name to listen to it
_CREDENTIALS = struct.Struct("=iII")  # struct ucred: pid, uid, gid


@dataclass(frozen=True)
class Meeting:
    """One of three: ``listener``, which others will come to; ``line``, to who has one; or ``why`` there is neither."""

    listener: socket.socket | None = None
    line: socket.socket | None = None
    why: str = ""

    @property
    def is_over(self) -> bool:
        """There is nothing here that has not been used."""
        ends = [end for end in (self.listener, self.line) if end is not None and end.fileno() >= 0]
        return not ends and not self.why

    def close(self) -> None:
        for end in (self.listener, self.line):
            if end is not None:
                end.close()


def rendezvous(pid: int) -> Meeting:
    """Be the first who traces ``pid``, or come to who is."""
    try:
        name = _name(pid)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = _listening(name) or _coming(name)
            if found is not None:
                return found
            time.sleep(0.001)  # between bind() and listen(), or gone since
    except OSError as error:
        return Meeting(why=error.strerror or str(error))
    return Meeting(why="who has its name does not listen")


def _listening(name: bytes) -> Meeting | None:
    """None when another has the name. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(name)
        listener.listen(_BACKLOG)
        return Meeting(listener=listener)
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None


def _coming(name: bytes) -> Meeting | None:
    """None when nobody listens. Raises OSError."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(_PATIENCE)
        line.connect(name)
        if is_own(line):
            return Meeting(line=line)
        line.close()
        return Meeting(why="another user has taken its name")
    except OSError as error:
        line.close()
        if error.errno != errno.ECONNREFUSED:
            raise
        return None


def _name(pid: int) -> bytes:
    """The name for this process, and no other that ever has its number; for this user, and this process's view of
    numbers."""
    started = stat_of(pid)[START_TIME].decode()
    space = os.stat("/proc/self/ns/pid").st_ino
    return f"\0gilk-{os.geteuid()}-{space}-{pid}-{started}".encode()


def is_own(end: socket.socket) -> bool:
    """At the other end is a process of our user."""
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())


def right_to_trace(pid: int) -> int:
    """A file that can be opened by who may trace ``pid`` (proc(5), /proc/PID/mem).

    Raises TargetError `no-such-process`, `no-permission`.
    """
    try:
        return os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise TargetError("no-such-process", f"there is no process {pid}") from None
    except OSError:
        raise denied(pid) from None


def is_right_to_trace(fd: int, own: int) -> bool:
    """``fd``, which somebody has opened, is the file that ``own`` is. While that is open, its inode is no other's."""
    with contextlib.suppress(OSError):
        theirs, ours = os.fstat(fd), os.fstat(own)
        writes = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        return writes and (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
    return False

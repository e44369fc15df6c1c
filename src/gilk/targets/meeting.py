# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lets the clients that trace one process find each other, by a name that one of them holds and the others connect to.

The name is that of an abstract socket (unix(7)): the kernel gives it to one process, and takes it back when nobody has
the socket open any more, so that nothing is ever left behind. Anyone may take such a name, or connect to it: both sides
check the user at the other end, and the one that connects proves, by a file that only a tracer may open, that it may
trace the process.
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
from gilk.targets.alive import memory_file
from gilk.targets.ptrace import denied
from gilk.targets.stat import START_TIME, stat_of
from gilk.values import dataclass

_BACKLOG = 128
_PATIENCE = 1.0  # seconds for the holder of the name to listen
_CREDENTIALS = struct.Struct("=iII")  # struct ucred: pid, uid, gid


@dataclass(frozen=True)
class Meeting:
    """The result of rendezvous(), one of three: ``listener``, to which others will connect; ``line``, a connection to
    the holder of the name; or ``why`` there is neither."""

    listener: socket.socket | None = None
    line: socket.socket | None = None
    why: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to use: both sockets are absent or closed, and there is no ``why``."""
        ends = [end for end in (self.listener, self.line) if end is not None and end.fileno() >= 0]
        return not ends and not self.why

    def close(self) -> None:
        for end in (self.listener, self.line):
            if end is not None:
                end.close()


def rendezvous(pid: int) -> Meeting:
    """Take the name as the first tracer of ``pid``, or connect to its holder."""
    try:
        name = _name(pid)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = _listening(name) or _coming(name)
            if found is not None:
                return found
            time.sleep(0.001)  # the holder is between bind() and listen(), or has just gone
    except OSError as error:
        return Meeting(why=error.strerror or str(error))
    return Meeting(why="who has its name does not listen")


def _listening(name: bytes) -> Meeting | None:
    """Take the name; None when another process has it. Raises OSError."""
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
    """Connect to the holder of the name; None when nobody listens. Raises OSError."""
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
    """The socket name for this process. It is no other process's that has the same number later, and differs by user
    and PID namespace."""
    started = stat_of(pid)[START_TIME].decode()
    space = os.stat("/proc/self/ns/pid").st_ino
    return f"\0gilk-{os.geteuid()}-{space}-{pid}-{started}".encode()


def is_own(end: socket.socket) -> bool:
    """Whether the process at the other end belongs to our user."""
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())


def right_to_trace(pid: int) -> int:
    """An open file that only a process that may trace ``pid`` can open (proc(5), /proc/PID/mem). Raises TargetError
    `no-such-process`, `no-permission`."""
    try:
        return memory_file(pid)
    except FileNotFoundError:
        raise TargetError("no-such-process", f"there is no process {pid}") from None
    except OSError:
        raise denied(pid) from None


def is_right_to_trace(fd: int, own: int) -> bool:
    """Whether ``fd``, which somebody else has opened, is the same file as ``own``, open for reading and writing. While
    ``own`` is open, no other file has its inode."""
    with contextlib.suppress(OSError):
        theirs, ours = os.fstat(fd), os.fstat(own)
        writes = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        return writes and (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
    return False

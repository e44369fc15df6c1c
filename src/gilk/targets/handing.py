# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hands one of gilk's file descriptors to a target, over a pair of sockets that the target makes (SCM_RIGHTS, unix(7)),
so that one target can map memory that another has made.

A process that shares the target's table of descriptors may put any file in the place of a socket. So a child process,
whose time is limited, checks that the descriptor is a socket before it sends anything: to hold a file of an arbitrary
file system, and to close it, may take as long as that file system pleases. Such a process may receive the descriptor in
place of the target with which it shares its table, and would have it in any case; the mapping is compared with gilk's
memory afterwards.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct
import time
from typing import Final

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE
from gilk.targets.status import status_of
from gilk.targets.system_calls import CLOSE, SystemCalls, not_our_call

_RECVMSG: Final = 47
_SOCKETPAIR: Final = 53
_PIDFD_GETFD: Final = 438
_DATAGRAM: Final = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_CLOEXEC: Final = 0x40000000  # MSG_CMSG_CLOEXEC
_PATIENCE: Final = 5.0  # seconds
_PAIR = struct.Struct("<2i")
_VECTOR = struct.Struct("<2Q")  # struct iovec
_MESSAGE = struct.Struct("<QI4xQQQQI4x")  # struct msghdr
_CONTROL = struct.Struct("<QiiI4x")  # struct cmsghdr, and one descriptor
_VECTOR_AT, _BYTE_AT, _CONTROL_AT = 64, 96, 128  # in the page of the message
_libc = ctypes.CDLL(None, use_errno=True)


def hand_over(call: SystemCalls, mine: int) -> int:
    """The target's own descriptor of the file that gilk has as ``mine``. Raises OSError, TargetError `cannot-share`,
    `not-our-call`."""
    page = call.anonymous(0, PAGE)
    try:
        call.call(_SOCKETPAIR, socket.AF_UNIX, _DATAGRAM, 0, page)
        pair = _PAIR.unpack(call.memory.read(page, _PAIR.size))
        try:
            _send(call.tid, pair[0], mine)
            return _received(call, page, pair[1])
        finally:
            for fd in pair:
                with contextlib.suppress(OSError):
                    call.call(CLOSE, fd & 0xFFFFFFFF)
    finally:
        call.unmap(page, PAGE)


def _received(call: SystemCalls, page: int, fd: int) -> int:
    """Have the target receive the descriptor from its socket ``fd``; returns its number there. Raises TargetError
    `not-our-call` where the message has no descriptor."""
    vector = _VECTOR.pack(page + _BYTE_AT, 1)
    message = _MESSAGE.pack(0, 0, page + _VECTOR_AT, 1, page + _CONTROL_AT, _CONTROL.size, 0)
    call.memory.write(page, message.ljust(_VECTOR_AT, b"\0") + vector.ljust(PAGE - _VECTOR_AT, b"\0"))
    call.call(_RECVMSG, fd & 0xFFFFFFFF, page, _CLOEXEC | socket.MSG_DONTWAIT)
    _, level, kind, received = _CONTROL.unpack(call.memory.read(page + _CONTROL_AT, _CONTROL.size))
    if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS) or received >= 1 << 31:
        raise not_our_call(call.tid, "says that it was sent no file")
    return int(received)


def _send(tid: int, fd: int, mine: int) -> None:
    """Send the descriptor ``mine`` to the target's socket ``fd``, in a child process. Raises TargetError
    `cannot-share`."""
    child = os.fork()
    if not child:
        _send_and_end(tid, fd, mine)
    until = time.monotonic() + _PATIENCE
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)  # a child that waits for a file system ends when that answers
            raise _cannot_share("does not come back from a system call")
        time.sleep(0.0005)
    if status:
        code = os.waitstatus_to_exitcode(status)
        raise _cannot_share(os.strerror(code) if code > 0 else "was ended")


def _send_and_end(tid: int, fd: int, mine: int) -> None:
    code = errno.EIO
    try:
        _close_all_but(mine)
        ours = _socket_of(tid, fd)
        ours.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [mine]))], socket.MSG_DONTWAIT)
        code = 0
    except OSError as error:
        code = error.errno or errno.EIO
    finally:
        os._exit(code & 0xFF)


def _close_all_but(mine: int) -> None:
    """Close all other files in the child: a socket that it kept open would hide its end from the other side."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != mine:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(name))


def _socket_of(tid: int, fd: int) -> socket.socket:
    """The socket that a thread has as descriptor ``fd``, duplicated here. Raises OSError."""
    process = os.pidfd_open(int(status_of(tid)[b"Tgid"]))
    found = _libc.syscall(_PIDFD_GETFD, process, fd, 0)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    taken = socket.socket(fileno=found)  # fails for a file that is no socket
    if (taken.family, taken.type) != (socket.AF_UNIX, socket.SOCK_DGRAM):
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    return taken


def _cannot_share(why: str) -> TargetError:
    return TargetError(
        "cannot-share",
        f"the process cannot be given memory that another has made: {why}",
        "weave into one process at a time; a container or a sandbox may refuse pidfd_getfd(2) or sockets",
    )

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's process: answers one client, and undoes everything when that client is gone. If the client follows the
processes that its target begins, the keeper answers for each of them on a line of its own.

It runs as a program of its own (keeper_program.py), or in a fork of the client. It is in a process group of its own and
ignores the terminal's signals, so that whatever kills the client does not reach it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Collection, Iterator
from typing import NoReturn

from gilk.errors import GilkError
from gilk.targets import launch, ptrace, wire
from gilk.targets.apart import KEEPER, stand_apart
from gilk.targets.server import Server
from gilk.targets.tree import ProcessTree

_TICK = 0.005  # seconds between looks at threads that were asked to stop and have not
_LOOK = 0.1  # seconds between looks for processes that come to share the target's memory
_SIGNALS = 128  # bytes of struct signalfd_siginfo
_SIGNALFD4 = 289  # the system call

_libc = ctypes.CDLL(None, use_errno=True)


class Serving:
    """Serves lines to clients, each about one process; and, once a tree is followed, the line on which the client is
    told of programs that are executed."""

    def __init__(self, channel: socket.socket) -> None:
        self._tree = ProcessTree()
        self._servers = [Server(channel, self._tree, self._follow)]
        self._news: socket.socket | None = None
        self._children = -1  # a signalfd, once threads are traced while they run

    def serve(self) -> None:
        """Answer requests until the client goes. However this ends, everything is undone first, and clients that are
        still there are told of the error."""
        failure: BaseException | None = None
        try:
            while self._servers or self._news is not None:
                self._turn()
        except BaseException as error:
            failure = error
            raise
        finally:
            self._end_following()
            for server in self._servers:
                server.part(failure)

    def _turn(self) -> None:
        late = [server for server in self._servers if server.release_late()]
        self._tree.pump()
        self._tell()
        lines = {server.channel.fileno(): server for server in self._servers}
        if self._tree.stays:
            self._listen()
        others = [self._children] if self._tree.stays else []
        others += [] if self._news is None else [self._news.fileno()]
        there, _ = wire.ready([*lines, *others], seconds=_TICK if late else self._round())
        if not there:
            for server in self._servers:
                server.look_around()
        if self._children in there:
            with contextlib.suppress(BlockingIOError):  # the signal is not pending any more
                os.read(self._children, _SIGNALS)
        if self._news is not None and self._news.fileno() in there:
            self._hear_of_news()
        for server in [lines[fd] for fd in there if fd in lines]:
            self._hear(server)

    def _round(self) -> float | None:
        """Seconds to wait before looking around again; None if gilk has nothing in a target and no tree is followed."""
        return _LOOK if self._tree.followed or any(server.has_something_in_it for server in self._servers) else None

    def _hear(self, server: Server) -> None:
        try:
            server.hear()
        except (wire.ChannelClosed, launch.Abandoned):
            self._servers.remove(server)
            server.part()

    # Following.

    def _follow(self, line: socket.socket) -> None:
        """Begin to listen to SIGCHLD and to the client's line. Raises OSError."""
        self._listen()
        self._news = line

    def _listen(self) -> None:
        """Be woken by SIGCHLD, which tells of stops of traced threads. Raises OSError."""
        if self._children >= 0:
            return
        mask = ctypes.c_uint64(1 << signal.SIGCHLD - 1)
        flags = os.O_CLOEXEC | os.O_NONBLOCK  # SFD_CLOEXEC, SFD_NONBLOCK
        self._children = _libc.syscall(_SIGNALFD4, -1, ctypes.byref(mask), ctypes.sizeof(mask), flags)
        if self._children < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def _tell(self) -> None:
        news, self._tree.news = self._tree.news, []
        if news and self._news is not None:
            with self._while_there():
                wire.send(self._news, news)

    def _hear_of_news(self) -> None:
        assert self._news is not None
        with self._while_there():
            (name, pid), fds = wire.receive(self._news)
            if name == "pass":
                self._tree.let_pass(pid)
            elif name == "claim":
                self._claim(pid, socket.socket(fileno=fds[0]))

    def _claim(self, pid: int, line: socket.socket) -> None:
        """Answer for a process on a line of its own. The line first brings None, or the error for which the process is
        let run instead."""
        server = Server(line, self._tree, self._follow)
        error = self._why_not(server, pid)
        with contextlib.suppress(wire.ChannelClosed):  # the next read from the line finds it closed
            wire.send(line, error)
        if error is None:
            self._servers.append(server)
        else:
            server.part()

    def _why_not(self, server: Server, pid: int) -> Exception | None:
        try:
            server.claim(pid)
        except (GilkError, OSError, ptrace.Late) as error:
            self._tree.let_pass(pid)
            return error
        return None

    @contextlib.contextmanager
    def _while_there(self) -> Iterator[None]:
        """A context that ends following if the line for news is closed: with nobody to tell, nothing is followed."""
        try:
            yield
        except wire.ChannelClosed:
            self._end_following()

    def _end_following(self) -> None:
        if self._news is not None:
            self._tree.let_go()
            self._news.close()
            self._news = None


def serve(channel: socket.socket, mask: Collection[int] | None = None) -> NoReturn:
    """Serve a client until it goes, then end this process, which must have no other work. ``mask``: the signals that it
    had blocked when it began, if SIGCHLD was blocked since."""
    stand_apart(KEEPER)
    ptrace.be_told(mask)
    Serving(channel).serve()
    os._exit(0)  # at once: the client may be waiting for our end, and nothing is left to tidy

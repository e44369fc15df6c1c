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
import time
from collections.abc import Collection, Iterator
from typing import NoReturn

from gilk.errors import GilkError
from gilk.targets import launch, ptrace, wire
from gilk.targets.apart import KEEPER, stand_apart
from gilk.targets.server import Server
from gilk.targets.tree import ProcessTree

_TICK = 0.005  # seconds between looks at threads that were asked to stop and have not
_LOOK = 0.1  # seconds between looks for processes that come to share the target's memory
_PATIENCE = 60.0  # seconds that processes stand still for a client that says nothing
_NEWS = 100  # the news in one message, at most: a line that can be written to mostly has room for it
_SIGNALS = 128  # bytes of struct signalfd_siginfo
_SIGNALFD4 = 289  # the system call

_libc = ctypes.CDLL(None, use_errno=True)


class Serving:
    """Serves lines to clients, each about one process; and, once a tree is followed, the line on which the client is
    told of programs that are executed."""

    def __init__(self, channel: socket.socket) -> None:
        self._tree = ProcessTree()
        self._servers = [Server(channel, self._tree, self._follow, self._keep_up)]
        self._news: socket.socket | None = None
        self._children = -1  # a signalfd, once threads are traced while they run
        self._silent_since: float | None = None  # when the client last spoke while processes wait for it; None: none do
        self._given_up = False  # the client is silent, and no process waits for it until it speaks again

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
        if self._given_up:
            self._tree.let_all_pass()
        else:
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
        self._let_forgotten_go(any(fd != self._children for fd in there))

    def _round(self) -> float | None:
        """Seconds to wait before looking around again; None if there is nothing to look for."""
        busy = any(server.has_something_in_it or server.waits for server in self._servers)
        return _LOOK if self._tree.followed or busy else None

    def _let_forgotten_go(self, spoken: bool) -> None:
        """Let go of the processes that wait for the client if it says nothing for too long: it is stopped, or waits for
        a reader of its output."""
        waiting = [server for server in self._servers if server.waits]
        if spoken and self._given_up:
            self._given_up = False
            self._tree.tell_how_many_passed()
        if not waiting and not self._tree.has_held:
            self._silent_since = None
        elif spoken:
            self._silent_since = time.monotonic()
        elif self._is_silent_for_long():
            self._give_up()
            for server in waiting:
                if server.let_forgotten_go():
                    self._servers.remove(server)

    def _tell_the_rest(self, line: socket.socket) -> None:
        """Tell a client that ends following of the programs that it has not claimed."""
        self._tree.tell_how_many_passed()
        line.settimeout(wire.PARTING)
        with contextlib.suppress(wire.ChannelClosed, OSError):
            wire.send(line, self._tree.news)
        self._tree.news = []

    def _keep_up(self) -> None:
        """Look at the tree while the client does not take an answer."""
        self._tree.pump()
        if self._tree.has_held and (self._given_up or self._is_silent_for_long()):
            self._give_up()

    def _is_silent_for_long(self) -> bool:
        """Whether the client has said nothing for too long, while processes wait for it."""
        self._silent_since = self._silent_since or time.monotonic()
        return time.monotonic() - self._silent_since > _PATIENCE

    def _give_up(self) -> None:
        self._given_up = True
        self._tree.let_all_pass()

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
        """Tell the client the news, as many as it takes without making the tree wait."""
        tree = self._tree
        while tree.news and self._news is not None and wire.ready([], [self._news.fileno()], 0)[1]:
            news, tree.news = tree.news[:_NEWS], tree.news[_NEWS:]
            with self._while_there():
                wire.send(self._news, news, meanwhile=self._keep_up)

    def _hear_of_news(self) -> None:
        assert self._news is not None
        with self._while_there():
            (name, pid), fds = wire.receive(self._news)
            if name == "pass":
                self._tree.let_pass(pid)
            elif name == "beat":
                pass  # it is at work
            elif name == "claim":
                self._claim(pid, socket.socket(fileno=fds[0]))

    def _claim(self, pid: int, line: socket.socket) -> None:
        """Answer for a process on a line of its own. The line first brings None, or the error for which the process is
        let run instead."""
        server = Server(line, self._tree, self._follow, self._keep_up)
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
            self._tell_the_rest(self._news)
            self._news.close()
            self._news = None


def serve(channel: socket.socket, mask: Collection[int] | None = None) -> NoReturn:
    """Serve a client until it goes, then end this process, which must have no other work. ``mask``: the signals that it
    had blocked when it began, if SIGCHLD was blocked since."""
    stand_apart(KEEPER)
    ptrace.be_told(mask)
    Serving(channel).serve()
    os._exit(0)  # at once: the client may be waiting for our end, and nothing is left to tidy

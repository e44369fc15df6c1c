# SPDX-License-Identifier: LGPL-2.1-or-later
"""Separates a window that root has begun by sudo into two processes: this one, which speaks HTTP, becomes the user who
used sudo, and has no other rights; its child, the starter, stays root (starter.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gilk.api.running import forked_with
from gilk.web import rights
from gilk.web.children import GONE, ToldError
from gilk.web.grants import Grants, handed
from gilk.web.preloading import preload
from gilk.web.starter import LONGEST, ListeningPlace, Starter
from gilk.web.starting import Started, StartedProcess

Json = dict[str, Any]
_ENDS_WITHIN: Final = 660.0  # the seconds that the starter may take to end after its server: it waits for its programs
_ANSWERS_WITHIN: Final = 60.0  # the seconds that the starter may take to start a program, on a busy machine
_FDS: Final = 3  # the descriptors of a program that was started


class RootStarting:
    """Has programs started by the starter, process ``pid``, at the other end of the socket."""

    def __init__(self, end: socket.socket, pid: int) -> None:
        self._end, self.pid = end, pid
        self._waiting: dict[int, asyncio.Future[tuple[Json, list[int]]]] = {}
        self._last = 0
        self._gone: asyncio.Event | None = None

    def listen(self) -> asyncio.Event:
        """Begin to take answers in the running loop. Returns an event that the end of the starter sets."""
        if self._gone is None:
            self._gone = asyncio.Event()
            self._end.setblocking(False)
            asyncio.get_running_loop().add_reader(self._end.fileno(), self._take)
        return self._gone

    async def start(self, name: str) -> Started:
        """Start a program. Raises ToldError."""
        said, fds = await self._ask("start", name)
        pid, (writing, reading, pidfd) = said["pid"], fds
        process = StartedProcess(pid, pidfd, lambda: self._say("kill", pid), lambda: None)
        return Started(process, writing, reading)

    async def _ask(self, word: str, value: Any) -> tuple[Json, list[int]]:
        answer: asyncio.Future[tuple[Json, list[int]]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last + 1] = answer
        self._say(word, value)
        try:
            return await asyncio.wait_for(answer, _ANSWERS_WITHIN)
        except TimeoutError:
            raise GONE from None

    def _say(self, word: str, value: Any) -> None:
        self._last += 1
        try:
            self._end.send(json.dumps({"id": self._last, word: value}).encode())
        except OSError:
            self._lose()

    def _take(self) -> None:
        """Take a packet, or note that the starter has ended."""
        try:
            data, fds, _, _ = socket.recv_fds(self._end, LONGEST, _FDS)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            asyncio.get_running_loop().remove_reader(self._end.fileno())
            self._lose()
            return
        said = json.loads(data)
        answer = self._waiting.pop(said["id"], None)
        if answer is None or answer.done():
            for fd in fds:
                os.close(fd)  # a program that nobody waits for any more ends by its pipes
        elif "error" in said:
            answer.set_exception(ToldError(**said["error"]))
        else:
            answer.set_result((said, fds))

    def _lose(self) -> None:
        if self._gone is not None:
            self._gone.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(GONE)
        self._waiting.clear()

    def close(self) -> None:
        """Let the starter end, and wait for that."""
        self._end.close()
        pidfd = os.pidfd_open(self.pid)
        if select.select([pidfd], [], [], _ENDS_WITHIN)[0]:
            os.waitpid(self.pid, 0)
        os.close(pidfd)


@contextmanager
def separated(grants: Grants, audit: int, place: Path | None) -> Iterator[RootStarting | None]:
    """A context in which this process has the rights of the user who became root by sudo, and no others, and a starter
    that is root: None, and nothing else, if this process is not root, or there is no such user.

    ``audit``: the descriptor of the audit file, which leads to the starter from then on. ``place``: the Unix socket
    where this process listens. Call it before there are threads.
    """
    user, group = rights.invoking(os.environ)
    if os.geteuid() != 0 or not user:
        yield None
        return
    preload(user, group)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notes, noting = os.pipe()
    given = handed(grants)
    kept = (theirs.fileno(), given, notes, audit)
    pid = forked_with(kept, lambda: _be_starter(theirs, given, notes, audit, place))
    theirs.close()
    os.close(given)
    os.close(notes)
    os.dup2(noting, audit, inheritable=False)
    os.close(noting)
    starting = RootStarting(ours, pid)
    try:
        rights.give_up(user, group)
        yield starting
    finally:
        starting.close()


def _be_starter(end: socket.socket, grants: int, notes: int, audit: int, place: Path | None) -> None:
    """The life of the starter. It is in a session of its own, since Ctrl-C is for the server."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # its end is that of the server, which takes everything out
    Starter(end, grants, notes, audit, None if place is None else ListeningPlace.of(place)).serve()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The starter of a window that root has begun by sudo: a small process that stays root, and starts the window's
programs for the process that speaks HTTP, which has given up root's rights (separation.py).

Its vocabulary is closed. A packet of JSON asks it

    {"id": N, "start": NAME}  to start a program (programs.py); the answer {"id": N, "pid": P} comes with three
                              descriptors: the pipe to it, the pipe from it, and its pidfd
    {"id": N, "kill": P}      to kill one of the programs that it has started, and that has not ended

and it answers {"id": N}, or {"id": N, "error": {...}}. A packet may come from whoever has taken the server over: all
else is refused. The server writes lines for the audit file, which it cannot open, into another pipe.

When the server has ended, the starter removes the Unix socket at which it listened. The programs end by themselves,
for their pipes are closed; the starter waits for them.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gilk.errors import GilkError, TargetError, UsageError
from gilk.values import dataclass
from gilk.web.frames import told
from gilk.web.programs import SpawnedProgram, spawned

Json = dict[str, Any]
LONGEST: Final = 4096  # the most bytes of a packet
_MOST: Final = 200  # the most programs at a time
_PART: Final = 1 << 16  # bytes of the audit that are copied at a time
_OUT_WITHIN: Final = 600.0  # the seconds that programs have after the end of the server, before they are killed
_KILLED_WITHIN: Final = 30.0  # the seconds after that


@dataclass(frozen=True, slots=True)
class ListeningPlace:
    """The path of a Unix socket, and the numbers of its file: another file there is not ours to remove."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> ListeningPlace:
        """The place of a socket that is there. Raises OSError."""
        about = path.lstat()
        return cls(path, about.st_dev, about.st_ino)

    def remove(self) -> None:
        with suppress(OSError):
            about = self.path.lstat()
            if (about.st_dev, about.st_ino) == (self.device, self.inode):
                self.path.unlink()


class Starter:
    """``end``: the socket to the server. ``grants``: a descriptor (grants.py). ``notes``: a pipe whose content is
    appended to the file ``audit``. ``place``: where the window listens, if at a Unix socket.
    """

    def __init__(self, end: socket.socket, grants: int, notes: int, audit: int, place: ListeningPlace | None) -> None:
        self._end, self._grants, self._notes, self._audit, self._place = end, grants, notes, audit, place
        self._started: dict[int, SpawnedProgram] = {}  # by pid, until they have ended and were waited for
        self._pidfds: dict[int, int] = {}  # the pids, by pidfd
        self._poll = select.poll()
        self._over = False  # whether the server has ended
        self._noted = False  # whether the pipe of the audit is at its end

    def serve(self) -> None:
        """Serve until the server has ended, and all programs after it."""
        for each in (self._end.fileno(), self._notes):
            self._poll.register(each, select.POLLIN)
        while not self._over:
            self._turn(None)
        self._end.close()
        while self._notes_wait():
            self._append()
        if self._place is not None:
            self._place.remove()
        self._let_end(_OUT_WITHIN)
        for program in self._started.values():
            program.process.kill()
        self._let_end(_KILLED_WITHIN)

    def _let_end(self, within: float) -> None:
        """Wait until all programs have ended, for at most that many seconds."""
        until = time.monotonic() + within
        while self._started and (left := until - time.monotonic()) > 0:
            self._turn(left)

    def _turn(self, within: float | None) -> None:
        """Wait until something happens, for at most that many seconds, and do what there is to do."""
        for fd, _ in self._poll.poll(None if within is None else within * 1000):
            if fd == self._notes:
                self._append()
            elif fd in self._pidfds:
                self._reap(fd)
            else:
                self._receive()

    def _notes_wait(self) -> bool:
        """Whether the pipe of the audit has something to read, or is at its end."""
        return not self._noted and bool(select.select([self._notes], [], [], 0)[0])

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        self._started.pop(self._pidfds.pop(pidfd)).process.wait()
        os.close(pidfd)

    def _append(self) -> None:
        """Append what the server has written to the audit file."""
        part = os.read(self._notes, _PART)
        if not part:
            self._poll.unregister(self._notes)
            self._noted = True
            return
        with suppress(OSError):  # the disk may be full; the programs must end in good order all the same
            os.write(self._audit, part)

    def _receive(self) -> None:
        """Answer a packet, or note that the server has ended. Descriptors in a packet are closed by the kernel."""
        try:
            data, _, flags, _ = self._end.recvmsg(LONGEST)
        except OSError:
            data, flags = b"", 0
        if not data:
            self._over = True
            self._poll.unregister(self._end.fileno())
            return
        number = 0
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise _malformed()
            asked = parsed(data)
            number = asked["id"]
            self._answer(asked)
        except GilkError as error:
            self._send({"id": number, "error": told(error)})
        except OSError as error:  # too many files are open, for example
            failed = TargetError("cannot-launch", f"a process of the window's cannot be started: {error.strerror}")
            self._send({"id": number, "error": told(failed)})

    def _answer(self, asked: Json) -> None:
        """Do what is asked, and answer. Raises GilkError."""
        ((word, value),) = ((name, each) for name, each in asked.items() if name != "id")
        WORDS[word].act(self, asked["id"], value)

    def _start(self, number: int, name: str) -> None:
        if len(self._started) >= _MOST:
            raise TargetError("too-many-programs", f"a window has {_MOST} processes at most", "end a session")
        made = spawned(name, self._grants)
        pid = made.process.pid
        try:
            pidfd = os.pidfd_open(pid)
            self._started[pid], self._pidfds[pidfd] = made, pid
            self._poll.register(pidfd, select.POLLIN)
            self._send({"id": number, "pid": pid}, (made.writing, made.reading, pidfd))
        except OSError:
            made.process.kill()
            made.process.wait()
            raise
        finally:
            os.close(made.writing)
            os.close(made.reading)

    def _kill(self, number: int, pid: int) -> None:
        if pid not in self._started:
            raise TargetError("no-such-process", f"the window has started no process {pid}, or it has ended")
        self._started[pid].process.kill()
        self._send({"id": number})

    def _send(self, answer: Json, fds: tuple[int, ...] = ()) -> None:
        """Send a packet. A server that takes none is not waited for: what was started for it ends by its pipes."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with suppress(OSError):
            self._end.sendmsg([json.dumps(answer).encode()], rights, socket.MSG_DONTWAIT)


@dataclass(frozen=True, slots=True)
class StarterWord:
    """A word of the vocabulary: the type of its value, and the method of Starter that acts on it."""

    kind: type
    act: Callable[[Starter, int, Any], None]


#: The whole vocabulary.
WORDS: Final[Mapping[str, StarterWord]] = {
    "start": StarterWord(str, Starter._start),
    "kill": StarterWord(int, Starter._kill),
}


def parsed(data: bytes) -> Json:
    """The question in a packet: an ``id``, and a word with its value. Raises UsageError `bad-request`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _malformed() from None
    if not isinstance(found, dict) or len(found) != 2 or type(found.get("id")) is not int:
        raise _malformed()
    ((word, value),) = ((name, each) for name, each in found.items() if name != "id")
    if word not in WORDS or type(value) is not WORDS[word].kind:
        raise _malformed()
    return found


def _malformed() -> UsageError:
    return UsageError("bad-request", "that is no question to the starter of a window")

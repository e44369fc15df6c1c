# SPDX-License-Identifier: LGPL-2.1-or-later
"""A followed tree of processes, as the client sees it: each program that they execute is offered to the client before
its first instruction, which instruments it or lets it pass."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Collection, Iterator, Sequence

from gilk import own_threads
from gilk.errors import TargetError
from gilk.targets import wire
from gilk.targets.meeting import rendezvous
from gilk.targets.process import KeeperClient, Process
from gilk.targets.spawning import Spawned
from gilk.targets.tree import Executed, News, ProgramsPassed

_PATIENCE = 120.0  # seconds for an answer
_BEAT = 5.0  # seconds


class TreeClient:
    """Follows all that ``process`` begins from now on. Close it before the sessions: nothing is followed from then on.

    Raises TargetError `follow-alone` where another client has a part in the process, and as any change does.
    """

    def __init__(self, process: Process) -> None:
        if process.meeting.is_over:
            process.meeting = rendezvous(process.pid)
        if process.meeting.line is not None:
            raise TargetError(
                "follow-alone",
                f"process {process.pid} is in another session of gilk, and who follows has to be the first",
                "end that one first, or leave out --follow",
            )
        self.keeper = process.keeper.pid
        self._line, theirs = socket.socketpair()
        self._line.settimeout(_PATIENCE)
        self._sending = threading.Lock()
        self._ends = False
        self.lost = False  # whether the keeper has gone, and nothing is followed any more
        self.unseen = 0  # programs that ran without instruments at the end, since nobody claimed them
        try:
            process.keeper.follow(theirs.fileno())
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()

    def fileno(self) -> int:
        """The descriptor of the line with the news; -1 once it is closed, or the keeper has gone."""
        return self._line.fileno()

    def look(self) -> Sequence[News]:
        """The news since the last call."""
        news: list[News] = []
        with self._while_there():
            while self.fileno() >= 0 and wire.readable(self.fileno(), 0):
                news += wire.receive(self._line)[0]
        return news

    def claim(self, executed: Executed) -> Process:
        """The process, as if it had been launched: it waits before its program's first instruction.

        The answer comes on a new line that is for this process only, because news may come at any moment on the tree's
        own line. Raises TargetError; if the process is still there, it runs then.
        """
        channel, theirs = socket.socketpair()
        channel.settimeout(_PATIENCE)
        try:
            with theirs:
                self._send(("claim", executed.pid), (theirs.fileno(),))
            _accepted(channel)
            ended = os.pidfd_open(self.keeper)
        except BaseException:
            channel.close()
            raise
        keeper = KeeperClient(made=Spawned(self.keeper, channel, ended, lambda: None))
        return Process(keeper, executed.pid, launched=True)

    def let_pass(self, executed: Executed) -> None:
        with contextlib.suppress(TargetError):
            self._send(("pass", executed.pid))

    def beat(self) -> None:
        """Tell the keeper that the client is at work, from another thread than the one that uses this object. If the
        line is closed, that thread finds it out."""
        with self._sending, contextlib.suppress(OSError, wire.ChannelClosed):
            if self.fileno() >= 0 and not self._ends:
                wire.send(self._line, ("beat", 0))

    def _send(self, words: tuple[str, int], fds: tuple[int, ...] = ()) -> None:
        with self._while_there():
            if self.fileno() >= 0:
                with self._sending:
                    wire.send(self._line, words, fds)
                return
        raise _gone()

    @contextlib.contextmanager
    def _while_there(self) -> Iterator[None]:
        try:
            yield
        except (wire.ChannelClosed, TimeoutError):
            self._line.close()
            self.lost = True

    def close(self) -> None:
        """End following; afterwards no process is traced but those that have probes."""
        with self._sending:
            self._ends = True
        if self.fileno() >= 0:
            with contextlib.suppress(OSError, wire.ChannelClosed):
                self._line.shutdown(socket.SHUT_WR)
                while wire.readable(self.fileno(), _PATIENCE):
                    self.unseen += sum(map(_programs_in, wire.receive(self._line)[0]))
            self._line.close()


@contextlib.contextmanager
def at_work(trees: Collection[TreeClient]) -> Iterator[None]:
    """A context in which the client makes programs ready, which may take long. Without it, the keepers take a client
    that is silent for stopped, and let the programs go."""

    def beat() -> None:
        for tree in trees:
            tree.beat()

    with own_threads.every(_BEAT, beat):
        yield


def _programs_in(news: News) -> int:
    return 1 if isinstance(news, Executed) else news.count if isinstance(news, ProgramsPassed) else 0


def passed(count: int) -> str:
    """A note for the user about programs that were let pass while the client was silent (ProgramsPassed)."""
    return f"{count} more programs ran without instruments, while gilk stood still (kept-waiting)"


def left_unseen(trees: Collection[TreeClient]) -> list[str]:
    """The notes for the user about programs that nobody has claimed before the trees were closed."""
    count = sum(tree.unseen for tree in trees)
    return [f"{count} more programs ran without instruments, as gilk ended first (kept-waiting)"] if count else []


def _accepted(channel: socket.socket) -> None:
    """Wait for the answer to a claim. Raises the keeper's error if it was refused, or TargetError `keeper-gone`."""
    try:
        error = wire.receive(channel)[0]
    except (wire.ChannelClosed, TimeoutError):
        raise _gone() from None
    if error is not None:
        raise error


def _gone() -> TargetError:
    return TargetError("keeper-gone", "the process that holds the target has gone")

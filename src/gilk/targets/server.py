# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's answers about one process of this machine, which it has attached to, has launched, or has claimed from a
followed tree. When the client has gone, it undoes everything."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable

from gilk.errors import GilkError, TargetError, failed
from gilk.targets import launch, ptrace, wire
from gilk.targets.another_program import program_gone
from gilk.targets.answers import Answer, Answers
from gilk.targets.debug_registers import WatchedPiece
from gilk.targets.keeper import Keeper
from gilk.targets.launch import Command, ProcessEnd
from gilk.targets.linux import LinuxProcess
from gilk.targets.traps import Traps
from gilk.targets.tree import ProcessTree, kept_waiting
from gilk.targets.world import PtracedThreads

_FIRST = -20  # nice(2)
_HANDLES_IT = "the program has begun to handle SIGTRAP itself: accesses after that went without advice"


class Server(Answers):
    """Answers, besides, the requests that only a process of this machine can serve: attach, launch, wait. ``tree``: the
    traced processes. ``follow`` is called with the line on which the client is told of processes that begin,
    ``keep_up`` again and again while the client does not take an answer."""

    def __init__(
        self, channel: socket.socket, tree: ProcessTree, follow: Callable[[socket.socket], None],
        keep_up: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self.channel, self._tree, self._follow, self._keep_up = channel, tree, follow, keep_up
        self._process: LinuxProcess | None = None
        self._child, self._launched = 0, False
        self._status: int | None = None
        self._kept: list[int] = []
        self._traps: Traps | None = None

    @property
    def threads(self) -> PtracedThreads:
        if self._process is None:
            raise TargetError("no-such-process", "not attached")
        return self._process.threads

    def attach(self, pid: int) -> int:
        _let_go_of_files()
        _go_first()
        process = LinuxProcess(pid, self._tree)
        keeper = Keeper(process)
        with process.threads.stopped():
            process.renew()
        self._process, self._keeper = process, keeper
        return pid

    def launch(self, command: Command) -> int:
        self._child, self._launched = launch.launch(command), True
        _let_go_of_files()
        _go_first()
        self._process = LinuxProcess(self._child, self._tree)
        self._keeper = Keeper(self._process)
        self.threads.hold()
        return self._child

    def claim(self, pid: int) -> None:
        """Answer for a process of the tree that stands before its program's first instruction. Raises TargetError."""
        self._tree.claim(pid)
        self._child = pid
        self._process = LinuxProcess(pid, self._tree)
        self._keeper = Keeper(self._process)
        launch.to_user(pid, noted=self._tree.note)
        self.threads.hold(lone=False)

    def follow(self) -> None:
        """Follow the processes that this one begins from now on. The line came as a descriptor with the request."""
        line = socket.socket(fileno=self._kept.pop())
        self._tree.follow(self.threads.pid)
        self._follow(line)
        with self.threads.stopped():
            self.threads.stay()

    def run_until_linked(self, notify: int, state: int) -> bool:
        memory = self.keeper.memory
        if not launch.run_until_linked(self._child, memory, notify, state, self._awaited, self._tree.note):
            return False
        self.threads.hold()
        return True

    def run_to(self, address: int, finally_: bool) -> bool:
        """Run the launched program to ``address``; False if it has ended. With ``finally_``, threads that its
        constructors have started are stopped, too."""
        if not launch.run_to(self._child, self.keeper.memory, address, self._awaited):
            return False
        self.threads.hold()
        if finally_:
            self.threads.stop()
        return True

    def main_of(self, low: int, high: int) -> int:
        address = launch.main_of(self._child, low, high)
        if address:
            self.threads.hold()
        return address

    def hold(self) -> None:
        """Stop the process until release(), whatever it executes by now, if gilk has nothing of another program in it.
        Raises TargetError."""
        self.threads.keep()
        if not self.keeper.held.code and self._process is not None:
            self._process.renew()
        elif not self.keeper.present():
            self.threads.release()
            raise program_gone(self.threads.pid)

    def release(self) -> None:
        self.threads.release()

    def trap(self, pieces: list[WatchedPiece], enter: int) -> None:
        """Have debug registers lead threads to advice from now on (trapping.py). Raises TargetError
        `no-debug-registers`."""
        assert self._process is not None and self._traps is None
        self._traps = traps = Traps(self._process, self.keeper)
        try:
            traps.begin(pieces, enter)
        except BaseException:
            self._untrap()
            raise

    def _untrap(self) -> None:
        if self._traps is not None:
            traps, self._traps = self._traps, None
            self.keeper.notes += traps.end()

    def keep_name(self) -> None:
        """Keep the socket that came with the request open to the end: as long as it is open the session has its name,
        and once nobody has the name, another session may take the target.

        The keeper may have more than one client then, so it does not keep the standard error of one of them open.
        """
        os.dup2(1, 2, inheritable=False)

    def map_common(self, size: int) -> int:
        """Map memory whose descriptor came with the request; returns its address in the target."""
        mine = self._kept.pop()
        try:
            return self.keeper.mapper.map_common(mine, size)
        finally:
            os.close(mine)

    def give_up_name(self) -> None:
        while self._kept:
            os.close(self._kept.pop())

    def close(self) -> bool:
        self._untrap()
        restored = super().close()
        if self._process is not None:
            self._process.threads.release()
        return restored

    def wait(self, block: bool) -> ProcessEnd | None:
        """How a launched process ended; None while it runs."""
        if self._status is None and self._child:
            self._status = self._tree.status_of(self._child)
        if self._status is None and self._child and not self._tree.stays:
            with contextlib.suppress(ProcessLookupError):
                self._status = launch.wait(self._child, self._awaited) if block else ptrace.stopped(self._child)
        if self._status is None and self._process is not None:
            self._status = self._process.threads.exit_status
        if self._status is None:
            return None
        return ProcessEnd(_shell_code(self._status))

    def _awaited(self) -> bool:
        """Whether the client still waits for its answer. It sends nothing meanwhile, so a readable channel means that
        it has gone."""
        self._tree.pump()
        return not wire.readable(self.channel.fileno(), 0)

    def hear(self) -> None:
        """Receive a request and answer it. Raises wire.ChannelClosed, launch.Abandoned."""
        (name, arguments), fds = wire.receive(self.channel)
        self._kept += fds
        self.answer(name, arguments, self._send)

    def _stays(self) -> bool:
        """Leave the target as it is, if the client wanted that; returns whether it did."""
        with contextlib.suppress(GilkError, OSError):
            self._untrap()
            if self._keeper is not None and self._process is not None and self._keeper.leaves_all():
                self._process.threads.release()
                return True
        return False

    def _send(self, answer: Answer, fds: tuple[int, ...]) -> None:
        wire.send(self.channel, answer, fds, self._keep_up if self._tree.stays else None)

    def part(self, failure: BaseException | None = None) -> None:
        """End when the client has gone, or at an error of this process's own: undo everything, and only then tell of
        the error and close the channel, which the other end sees."""
        self._end_unstarted()
        with contextlib.suppress(GilkError, OSError, ptrace.Late):
            if not self._stays():
                self.close()
        if failure is not None:
            self._send_failure(failure)
        self.give_up_name()
        self.channel.close()

    def _send_failure(self, failure: BaseException) -> None:
        """Send the error as the answer to the client's request; without one, the client finds it when it makes the
        next."""
        self.channel.settimeout(wire.PARTING)
        with contextlib.suppress(wire.ChannelClosed, OSError):
            self._send((False, failed("the process that holds the target", failure)), ())

    def _end_unstarted(self) -> None:
        """Kill a launched program that has not begun: it is not to begin without the client that wanted to watch it."""
        if self._process is not None and self._process.threads.holds and self._launched:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)

    def release_late(self) -> bool:
        """Let go of threads that stopped too late; returns whether others may still stop."""
        return self._keeper is not None and self._keeper.release_late()

    def look_around(self) -> None:
        if self._keeper is not None:
            with contextlib.suppress(GilkError, OSError, ptrace.Late):
                self._keeper.look_for_newcomers()
        if self._traps is not None and not self._traps.is_safe():
            with contextlib.suppress(GilkError, OSError, ptrace.Late):
                self._untrap()
                self.keeper.notes.append(_HANDLES_IT)

    @property
    def waits(self) -> bool:
        """Whether a process that had begun before stands still until the client lets it go on."""
        return self._process is not None and self._process.threads.holds and not self._launched

    def let_forgotten_go(self) -> bool:
        """Let a process go on whose client is silent for too long. Returns whether this server has ended with that: the
        client finds the error `kept-waiting`. One that was attached to is merely not held any more."""
        if self._child:
            self.part(kept_waiting(self._child))
        else:
            self.threads.release()
        return bool(self._child)

    @property
    def has_something_in_it(self) -> bool:
        """Whether gilk has memory in the process."""
        return self._keeper is not None and bool(self._keeper.held.data)


def _go_first() -> None:
    """Raise this process's priority where that is allowed: while threads stand still, everything else waits for the
    keeper. This must not happen before the target is launched, which would inherit the priority."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST)


def _let_go_of_files() -> None:
    """Close the inherited files, which are meant for the target: a reader of a pipe must see its end when the target
    has closed it. The keeper's own files are not inheritable and stay, as does standard error, for error messages."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


def _shell_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

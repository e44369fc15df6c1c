# SPDX-License-Identifier: LGPL-2.1-or-later
"""A tree of followed processes: their threads, and those of all processes that they begin, stay traced while they run.

So the kernel reports each process that begins, has it traced from its first instruction on, and holds each program that
is executed before its own first instruction. If nothing is followed, a tree is empty, and threads are traced only while
they stand still.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Protocol

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.status import status_of
from gilk.targets.thread import Thread
from gilk.values import dataclass

_PATIENCE = 5.0  # seconds for threads to stop before they are let go
_REST = 0.001  # seconds


@dataclass(frozen=True, slots=True)
class Executed:
    """Process ``pid`` has executed a program, and stands before its first instruction. ``program`` is the number of
    that program within the tree, ``parent`` the number of the program that the process ran before."""

    pid: int
    program: int
    parent: int


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """No process runs this program of the tree any more."""

    program: int


@dataclass(frozen=True, slots=True)
class TreeEnded:
    """All processes of the tree have ended."""


@dataclass(frozen=True, slots=True)
class ProgramsPassed:
    """``count`` programs were let pass without being told of, since the client was silent."""

    count: int


News = Executed | ProgramEnded | TreeEnded | ProgramsPassed


class Trapper(Protocol):
    """Leads threads to advice at accesses that debug registers show."""

    @property
    def pid(self) -> int: ...

    def take(self, thread: Thread) -> bool:
        """Whether the signal that a stopped thread is about to get is such an access. If so, the signal is gone, and
        the registers may be others, yet to be written."""
        ...

    def executed(self) -> None:
        """The process has executed another program, and stands before its first instruction. Let it go, untraced."""
        ...


class ProcessTree:
    """The followed processes and their threads. All calls come from one OS thread, as ptrace(2) demands. ``news`` are
    for the client; the caller that passes them on empties the list.

    Without being followed, the threads of one process stay traced while debug registers lead them to advice
    (trapping.py): ``trapper`` is then not None."""

    def __init__(self) -> None:
        self.followed = False
        self.trapper: Trapper | None = None
        self.news: list[News] = []
        self._running: dict[int, int] = {}  # running threads: pid by tid
        self._lent: dict[int, int] = {}  # threads that a caller stops, or has stopped: pid by tid
        self._held: set[int] = set()  # processes that have executed a program and are not claimed yet
        self._forgotten: set[int] = set()  # those that were let pass, until the client claims them
        self._programs: dict[int, int] = {}  # number of the program, by pid
        self._ended: dict[int, int] = {}  # wait statuses of processes that have ended
        self._last = 0
        self._untold: set[int] = set()  # numbers of running programs that the client is not told of
        self._passed = 0  # programs of which the client is only told how many they were

    @property
    def options(self) -> int:
        """The ptrace options of all threads (PTRACE_SETOPTIONS)."""
        if self.followed:
            return ptrace.O_TRACESYSGOOD | ptrace.O_FOLLOW
        more = ptrace.O_TRACECLONE | ptrace.O_TRACEEXEC if self.trapper is not None else 0
        return ptrace.O_TRACESYSGOOD | more

    @property
    def stays(self) -> bool:
        """Whether any threads stay traced while they run."""
        return self.followed or self.trapper is not None

    def keeps(self, pid: int) -> bool:
        """Whether the threads of a process stay traced while they run."""
        return self.followed or (self.trapper is not None and self.trapper.pid == pid)

    def follow(self, pid: int) -> None:
        """Begin to follow a process; its threads join the tree by ``go_on``."""
        self.followed = True
        self._programs[pid] = self._last

    def trap(self, trapper: Trapper | None) -> None:
        """Begin, or with None end, to hand the threads of a process to a trapper, while all of them stand still. They
        join the tree by ``go_on``."""
        assert not self.followed
        self.trapper = trapper
        self._running, self._lent, self._programs = {}, {}, {}
        if trapper is not None:
            self._programs[trapper.pid] = self._last

    # Threads that a caller stops.

    def lend(self, tid: int, pid: int) -> bool:
        """Whether the tree traces the thread already. If so, the caller need only ask it to stop, and owns it until it
        goes on or has ended. Raises TargetError `no-such-process` if the process has executed another program since."""
        if not self.keeps(pid):
            return False
        if pid in self._held:
            raise TargetError("no-such-process", f"process {pid} has executed another program")
        if self._running.pop(tid, None) is None and ptrace.tracer_of(tid) != os.getpid():
            return False
        self._lent[tid] = pid
        return True

    def go_on(self, thread: Thread, pid: int) -> None:
        """Let a stopped thread run, and take it back into the tree. Raises ProcessLookupError when it was killed
        meanwhile."""
        if thread.group_stop:  # a new PTRACE_SEIZE leaves it in its group stop; PTRACE_CONT would run it
            ptrace.call(ptrace.DETACH, thread.tid, 0, thread.signal)
            with contextlib.suppress(TargetError):
                ptrace.seize(thread.tid, self.options)
        else:
            ptrace.call(ptrace.CONT, thread.tid, 0, thread.signal)
        self._lent.pop(thread.tid, None)
        self._running[thread.tid] = pid

    def note(self, tid: int, status: int) -> bool:
        """Note what the wait status of a thread says about the tree; returns False if the thread has executed another
        program, else True."""
        if not self.stays:
            return True
        if not os.WIFSTOPPED(status):
            self._gone(tid, status)
        elif status >> 16 in ptrace.BEGINNINGS:
            with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile; the new one reports its own stop
                self._meet(ptrace.event_message(tid), tid)
        elif status >> 16 == ptrace.EVENT_EXEC:
            self._executed(tid)
            return False
        return True

    def _meet(self, tid: int, maker: int) -> None:
        """Add a new thread that thread ``maker`` has made. A caller that stops its process may have met it already."""
        pid = _process_of(tid)
        if pid not in self._programs:
            parent = self._running.get(maker) or self._lent.get(maker) or maker
            self._programs[pid] = self._programs.get(parent, self._last)
        if tid not in self._running and tid not in self._lent:
            self._running[tid] = pid

    def _executed(self, pid: int) -> None:
        """Note that a process has executed a program, and forget the threads of the program before."""
        for known in (self._running, self._lent):
            for tid in [tid for tid, process in known.items() if process == pid]:
                del known[tid]
        if self.trapper is not None:
            trapper, self.trapper = self.trapper, None
            trapper.executed()
            return
        self._held.add(pid)
        self._forgotten.discard(pid)
        before = self._programs.get(pid, 0)
        self._last += 1
        self._programs[pid] = self._last
        self.news.append(Executed(pid, self._last, before))
        self._left(before)

    def _gone(self, tid: int, status: int) -> None:
        self._running.pop(tid, None)
        self._lent.pop(tid, None)
        self._held.discard(tid)
        program = self._programs.pop(tid, None)
        if program is not None:
            self._ended[tid] = status
            self._left(program)
            if not self._programs:
                self.news.append(TreeEnded())

    def _left(self, program: int) -> None:
        if program in self._programs.values():
            return
        if program in self._untold:
            self._untold.discard(program)
        else:
            self.news.append(ProgramEnded(program))

    def status_of(self, pid: int) -> int | None:
        """The wait status of a process of the tree that has ended; None of any other."""
        return self._ended.get(pid)

    # Programs that were executed.

    @property
    def has_held(self) -> bool:
        """Whether a process waits to be claimed."""
        return bool(self._held)

    def let_all_pass(self) -> None:
        """Let all held processes run without instruments, since the client does not claim them. If it has not been told
        of them yet, it will only be told how many they were: it may be silent for long, and they may be many."""
        untold = {one.program for one in self.news if isinstance(one, Executed)}
        for pid in tuple(self._held):
            if self._programs[pid] in untold:
                self._untold.add(self._programs[pid])
                self._passed += 1
            else:
                self._forgotten.add(pid)
            self.let_pass(pid)
        self.news = [one for one in self.news if not (isinstance(one, Executed) and one.program in self._untold)]

    def tell_how_many_passed(self) -> None:
        """Add the number of programs that were let pass to the news, once the client speaks again."""
        if self._passed:
            self.news.append(ProgramsPassed(self._passed))
            self._passed = 0

    def claim(self, pid: int) -> None:
        """Lend a held process to the caller, stopped as a launched program is. Raises TargetError `no-such-process`,
        and `kept-waiting` if it was let pass."""
        if pid in self._forgotten:
            self._forgotten.discard(pid)
            raise kept_waiting(pid)
        if pid not in self._held:
            raise TargetError("no-such-process", f"process {pid} has ended")
        self._held.discard(pid)
        self._lent[pid] = pid

    def let_pass(self, pid: int) -> None:
        """Let a held process run without instruments."""
        if pid in self._held:
            self._held.discard(pid)
            with contextlib.suppress(ProcessLookupError):
                ptrace.call(ptrace.CONT, pid, 0, 0)
            self._running[pid] = pid

    # Between requests.

    def pump(self) -> None:
        """Look at all running threads, note what has happened to them, and let those go on that have stopped by
        themselves."""
        seen: set[int] = set()
        while fresh := {*self._running, *self._held} - seen:  # also threads met in this loop
            seen |= fresh
            for tid in fresh:
                self._go_on_if_stopped(tid)

    def _go_on_if_stopped(self, tid: int) -> None:
        try:
            status = ptrace.stopped(tid)
        except ProcessLookupError:
            self._gone(tid, 0)
            return
        if status is not None and self.note(tid, status) and os.WIFSTOPPED(status):
            with contextlib.suppress(ProcessLookupError):
                if self.trapper is None or not self._trapped(self.trapper, tid, status):
                    _pass_on(tid, status)

    def _trapped(self, trapper: Trapper, tid: int, status: int) -> bool:
        """Let a stopped thread go on if the trapper has to do with its stop; returns whether it had."""
        if status >> 16 == ptrace.EVENT_STOP and self._running.get(tid) != trapper.pid:
            ptrace.call(ptrace.DETACH, tid, 0, 0)  # a clone that is a process of its own
            self._running.pop(tid, None)
            return True
        if status >> 8 != ptrace.SIGTRAP:
            return False
        thread = Thread(tid, ptrace.SIGTRAP, ptrace.get_registers(tid), info=ptrace.get_info(tid))
        if not trapper.take(thread):
            return False
        if thread.dirty:
            ptrace.set_registers(tid, thread.registers)
        ptrace.call(ptrace.CONT, tid, 0, 0)
        return True

    # The end.

    def let_go(self) -> None:
        """End following: trace no thread any more but those that are lent. Threads that do not stop in time run on,
        traced, until this process ends."""
        if not self.followed:
            return
        for pid in tuple(self._held):
            with contextlib.suppress(ProcessLookupError):
                ptrace.call(ptrace.DETACH, pid, 0, 0)
        self._held.clear()
        asked: set[int] = set()
        deadline = time.monotonic() + _PATIENCE
        while self._running and time.monotonic() < deadline:
            for tid in [tid for tid in self._running if tid not in asked]:
                asked.add(tid)
                with contextlib.suppress(ProcessLookupError):
                    ptrace.call(ptrace.INTERRUPT, tid)
            if not [tid for tid in tuple(self._running) if self._let_go_if_stopped(tid)]:
                time.sleep(_REST)
        self.followed = False

    def _let_go_if_stopped(self, tid: int) -> bool:
        try:
            status = ptrace.stopped(tid)
        except ProcessLookupError:
            self._gone(tid, 0)
            return True
        if status is None:
            return False
        self.note(tid, status)
        if os.WIFSTOPPED(status):
            number = 0 if status >> 16 or ptrace.is_syscall_stop(status) else os.WSTOPSIG(status)
            with contextlib.suppress(ProcessLookupError):
                ptrace.call(ptrace.DETACH, tid, 0, number)
            self._running.pop(tid, None)
            self._held.discard(tid)
        return True


def _pass_on(tid: int, status: int) -> None:
    """Let a thread go on from a stop that it came to by itself, with the signal that it was given. Raises
    ProcessLookupError."""
    number = os.WSTOPSIG(status)
    if ptrace.is_event_stop(status) and number != ptrace.SIGTRAP:
        ptrace.call(ptrace.LISTEN, tid)  # a stopped job stays stopped, and SIGCONT wakes it
    elif status >> 16 or ptrace.is_syscall_stop(status):
        ptrace.call(ptrace.CONT, tid, 0, 0)
    else:
        ptrace.call(ptrace.CONT, tid, 0, number)


def kept_waiting(pid: int) -> TargetError:
    return TargetError(
        "kept-waiting",
        f"process {pid} has waited too long, and runs on without instruments",
        "while gilk is stopped, or nobody reads its output, it cannot instrument the programs that are executed",
    )


def _process_of(tid: int) -> int:
    with contextlib.suppress(OSError):
        return int(status_of(tid).get(b"Tgid", tid))
    return tid

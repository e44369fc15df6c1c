# SPDX-License-Identifier: LGPL-2.1-or-later
"""All threads of one process, stopped, for as short a time as possible.

Code is written, and threads are moved, only while every thread of the process
is in a ptrace stop. That makes the cross-modification protocols of running
code unnecessary: a thread leaves its stop through the kernel, which is a
serialising event, and no thread can stand where it was not seen.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Collection, Iterator

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.alive import is_alive, is_going, turns
from gilk.targets.kernel_threads import is_kernels
from gilk.targets.sharing import MemorySharing, shared_memory
from gilk.targets.thread import Thread
from gilk.targets.tracers import only_keepers
from gilk.targets.tree import ProcessTree

_EINTR, _ERESTARTNOHAND = -4 & (1 << 64) - 1, -514 & (1 << 64) - 1

#: System calls that fail with EINTR when a tracer stops the thread, though no
#: signal arrived, and may simply be made again (signal(7), "Interruption of
#: system calls"): semop msgsnd msgrcv rt_sigtimedwait io_getevents semtimedop
#: epoll_wait epoll_pwait io_pgetevents io_uring_enter (which has submitted nothing then) epoll_pwait2.
_RESTARTABLE = frozenset((65, 69, 70, 128, 208, 220, 232, 281, 333, 426, 441))

_PATIENCE = 5.0
_GLIMPSE = 0.01
_BRISK = 20


class PtracedThreads:
    """The threads of process ``pid`` between stop() and resume(), and of others that have its memory (sharing.py).

    The kernel's own among them (kernel_threads.py) are left alone: they execute no code that could be changed.
    """

    def __init__(self, pid: int, tree: ProcessTree | None = None) -> None:
        """``tree``: the threads stay traced while they run, if it is followed."""
        self.pid, self.tree = pid, tree or ProcessTree()
        self.threads: dict[int, Thread] = {}
        self.exit_status: int | None = None  # as from wait(2), once the process is seen to have ended
        self._late: set[int] = set()  # ours, asked to stop, and not yet seen to have done so or to have ended
        self._owed: dict[int, int] = {}  # threads that a late stop has cost their turn: how many they had had
        self._held = self._lone = False
        self._lent: dict[int, Thread] = {}  # those of the late that did something for us, as they were before
        self.sharing = MemorySharing(pid)
        self._foreign: set[int] = set()  # threads of others

    @contextlib.contextmanager
    def stopped(self) -> Iterator[dict[int, Thread]]:
        """Raises TargetError `no-such-process`, `no-permission`, `busy`, `shared-memory`."""
        if self._held:
            yield self.threads
            return
        self.stop()
        try:
            yield self.threads
        finally:
            self.resume()

    @property
    def worker(self) -> Thread:
        """The one of the stopped threads of the process itself that can best do something for us."""
        own = (thread for tid, thread in self.threads.items() if tid not in self._foreign)
        return min(own, key=lambda thread: (thread.signal != 0, thread.restarting()))

    def stop(self) -> None:
        """Stop every thread, also those that appear meanwhile; once another keeper is done with them, if one has them.

        Raises as stopped().
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._stop(deadline)
            except TargetError as error:
                if error.slug != "already-traced" or time.monotonic() > deadline or not only_keepers(self.pid):
                    raise
                self._let_go_of_late(deadline)  # else each may wait for a thread that the other has
                time.sleep(random.uniform(0.001, 0.01))  # a keeper has them for some ms

    def _stop(self, deadline: float) -> None:
        """The process first, of whose threads none waits in vfork then, and who shares its memory only as long as it
        does; parents before their children, which are left alone for as long as their parents wait for them."""
        self.sharing.look()
        try:
            self._stop_process(self.pid, deadline)
            if not self.threads:
                raise TargetError("no-such-process", f"process {self.pid} has ended")
            stopped: set[int] = set()
            while others := [pid for pid in self.sharing.others() if pid not in stopped]:
                stopped.add(others[0])
                self._stop_other(others[0], deadline)
        except BaseException:
            self.resume()
            raise

    def _stop_process(self, pid: int, deadline: float) -> None:
        asked: set[int] = set()
        while True:
            fresh = [tid for tid in ptrace.thread_ids(pid) if tid not in self.threads]
            fresh = [tid for tid in fresh if not is_kernels(pid, tid)]
            fresh = [tid for tid in fresh if tid not in asked or is_alive(tid)]
            if not fresh:
                break
            asked.update(fresh)
            if pid != self.pid:
                self._foreign.update(fresh)
            self._stop_some(fresh, deadline)

    def _stop_other(self, pid: int, deadline: float) -> None:
        try:
            self._stop_process(pid, deadline)
        except TargetError as error:
            if error.slug == "no-permission":
                raise shared_memory(self.pid, pid) from None
            if error.slug != "no-such-process":
                raise

    def _stop_some(self, tids: list[int], deadline: float) -> None:
        """Stop some threads. One that does not come (in vfork, or in disk wait) is let go when it does.

        They come in any order: that a main thread has ended is not heard of before all others have been seen to.
        """
        waiting, rounds = [tid for tid in tids if self._ask(tid)], 0
        while waiting:
            left = [tid for tid in waiting if not self._has_come(tid)]
            if len(left) == len(waiting):
                if time.monotonic() > deadline:
                    raise TargetError(
                        "busy",
                        f"thread {left[0]} of process {self.pid} does not stop",
                        "it waits in vfork or for a disk; try again",
                    )
                self.release_late(left)
                self.tree.pump()
                for tid in list(self.threads):
                    self._has_come(tid)  # again, if it was killed in its stop
                _rest(rounds)
                rounds += 1
            waiting = left

    def _ask(self, tid: int) -> bool:
        if tid in self._late:
            return True
        try:
            if not self.tree.lend(tid, self.pid):
                ptrace.seize(tid, self.options)
        except TargetError:
            if not is_going(tid):
                raise
            return False
        self._late.add(tid)
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.INTERRUPT, tid)
        return True

    def _has_come(self, tid: int, stays: bool = True) -> bool:
        """It has stopped, or ended. Where it is not to stay stopped, it goes on at once."""
        try:
            got, status = os.waitpid(tid, ptrace.WALL | os.WNOHANG)
        except ChildProcessError:
            self._late.discard(tid)
            self.tree.note(tid, 0)
            return True
        if not got:
            return False
        if not self.tree.note(tid, status):
            self._late, self.threads = set(), {}  # all were of the program before
            return True
        if self._is_underway(tid, status):
            with contextlib.suppress(ProcessLookupError):  # any stop takes the place of the one that was asked for
                ptrace.call(ptrace.INTERRUPT, tid)
                ptrace.call(ptrace.CONT, tid, 0, 0)
            return False
        self._late.discard(tid)
        if not os.WIFSTOPPED(status):
            self._ended(tid, status)
            return True
        self._arrived(tid, status)
        if not stays and (thread := self.threads.pop(tid, None)) is not None:
            self._owed[tid] = turns(self.pid, tid)
            self._let_go(thread)
        return True

    def _is_underway(self, tid: int, status: int) -> bool:
        """It has stopped where it cannot stay: inside a system call of ours, or inside one of its own that has begun a
        process or thread and whose result it does not have yet. Were it given its registers later, that was lost."""
        if not os.WIFSTOPPED(status):
            return False
        return status >> 16 in ptrace.BEGINNINGS or (tid in self._lent and not ptrace.is_event_stop(status))

    def _arrived(self, tid: int, status: int) -> None:
        if tid in self._lent:
            self._back(self._lent.pop(tid))
            return
        event = ptrace.is_event_stop(status)
        signal = 0 if event or status >> 16 else os.WSTOPSIG(status)
        try:
            registers = ptrace.get_registers(tid)
            info = ptrace.get_info(tid) if signal else None
        except ProcessLookupError:  # it was killed meanwhile
            self._late.add(tid)
            return
        stays = event and os.WSTOPSIG(status) != ptrace.SIGTRAP
        thread = Thread(tid, signal, registers, info=info, group_stop=stays)
        if event and registers.rax == _EINTR and registers.orig_rax in _RESTARTABLE:
            registers.rax = _ERESTARTNOHAND
            with contextlib.suppress(ProcessLookupError):
                ptrace.set_registers(tid, registers)  # at once: we may be killed before it goes on
        self.threads[tid] = thread

    def _back(self, thread: Thread) -> None:
        """The signal that was on its way cannot be passed on from this stop: it is sent again."""
        if thread.signal:
            ptrace.send(self.pid, thread.tid, thread.signal)
            thread.signal, thread.info = 0, None
        self.threads[thread.tid] = thread

    def _ended(self, tid: int, status: int) -> None:
        self.threads.pop(tid, None)
        self._lent.pop(tid, None)
        if tid == self.pid:
            self.exit_status = status

    def stop_some(self, tids: Collection[int]) -> dict[int, Thread]:
        """Stop only these threads, for a moment, until resume().

        A thread that does not stop at once is left out, then and until it has had a processor again: where many wait
        for one, the program would not get on otherwise.
        """
        self._owed = {tid: had for tid, had in self._owed.items() if tid in tids and 0 < had == turns(self.pid, tid)}
        wanted = [tid for tid in tids if tid not in self.threads and tid not in self._owed]
        with contextlib.suppress(TargetError):
            self._stop_some(wanted, time.monotonic() + _GLIMPSE)
        return {tid: thread for tid, thread in self.threads.items() if tid in tids}

    def hold(self, lone: bool = True) -> Thread:
        """Take over a launched process, stopped already, and keep it stopped until release(). ``lone``: nobody but us
        waits for it, and what has not begun does not begin without us."""
        self._held, self._lone = True, lone
        thread = Thread(self.pid, 0, ptrace.get_registers(self.pid))
        self.threads = {self.pid: thread}
        return thread

    @property
    def holds(self) -> bool:
        """A launched process that has not been let go yet."""
        return self._held

    def release(self) -> None:
        self._held = self._lone = False
        self.stay()
        self.resume()

    @property
    def options(self) -> int:
        """How threads are traced (PTRACE_SETOPTIONS)."""
        return self.tree.options | (ptrace.O_EXITKILL if self._lone else 0)

    def stay(self) -> None:
        """Have the stopped threads traced as the tree says, also once they run."""
        for tid in self.threads if self.tree.followed else ():
            with contextlib.suppress(ProcessLookupError):
                ptrace.call(ptrace.SETOPTIONS, tid, 0, self.options)

    def run_on(self, thread: Thread, seconds: float) -> Thread:
        """Let a stopped thread, to which no signal is on its way, go on for a moment while the others stand still: as
        it is by then. It may have made other threads: see catch_up().

        It goes on as it would by itself, not step by step: single steps would be the death of it, were we killed
        meanwhile. Raises ProcessLookupError when it has ended, TargetError `busy` when it does not stop again.
        """
        self.flush(thread)
        del self.threads[thread.tid]
        self._late.add(thread.tid)
        ptrace.call(ptrace.CONT, thread.tid, 0, 0)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.INTERRUPT, thread.tid)
        self._stop_some([thread.tid], time.monotonic() + _PATIENCE)
        if thread.tid not in self.threads:
            raise ProcessLookupError
        return self.threads[thread.tid]

    def catch_up(self) -> bool:
        """Stop the threads that have come into being while one went on; whether there were any. Raises as stop()."""
        before = set(self.threads)
        self._stop(time.monotonic() + _PATIENCE)
        return not before.issuperset(self.threads)

    def give_up(self, thread: Thread, mask: int) -> None:
        """A borrowed thread has not come back in time. When it does it is let go, with its own registers and mask."""
        thread.dirty, thread.mask = True, mask
        self.threads.pop(thread.tid, None)
        self._late.add(thread.tid)
        self._lent[thread.tid] = thread
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.INTERRUPT, thread.tid)

    def flush(self, thread: Thread) -> None:
        if thread.dirty:
            ptrace.set_registers(thread.tid, thread.registers)
            thread.dirty = False

    def resume(self) -> None:
        """Let all threads go, untraced."""
        for thread in self.threads.values():
            self._let_go(thread)
        self.threads, self._foreign = {}, set()

    def _let_go(self, thread: Thread) -> None:
        try:
            if thread.mask is not None:
                ptrace.set_mask(thread.tid, thread.mask)
            self.flush(thread)
            if thread.info is not None:
                ptrace.set_info(thread.tid, thread.info)
            if self.tree.followed:
                self.tree.go_on(thread, self.pid)
            else:
                ptrace.call(ptrace.DETACH, thread.tid, 0, thread.signal)
        except ProcessLookupError:
            self._late.add(thread.tid)  # it was killed in its stop; whose child it is learns of that behind us

    def _let_go_of_late(self, deadline: float) -> None:
        rounds = 0
        while self._late and time.monotonic() < deadline:
            self.release_late()
            _rest(rounds)
            rounds += 1

    def release_late(self, besides: Collection[int] = ()) -> bool:
        """Let go of threads that stopped only after we had given up on them, and of those that ended in their stop.
        Whether there are others, which may stop at any moment."""
        for tid in self._late.difference(besides):
            self._has_come(tid, stays=False)
        return bool(self._late)


def _rest(rounds: int) -> None:
    """A running thread stops within microseconds; the shortest sleep takes longer (prctl(2), PR_SET_TIMERSLACK)."""
    if rounds < _BRISK:
        os.sched_yield()
    else:
        time.sleep(min(0.001, 0.00002 * (rounds - _BRISK)))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stops all threads of one process, for as short a time as possible.

Code is written, and threads are moved, only while every thread of the process is in a ptrace stop. That makes the
cross-modification protocols of running code unnecessary: a thread leaves its stop through the kernel, which is a
serialising event, and no thread can stand where the keeper has not seen it.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Collection, Iterator

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.alive import is_alive, turns
from gilk.targets.kernel_threads import is_kernels
from gilk.targets.sharing import MemorySharing, shared_memory
from gilk.targets.thread import Thread
from gilk.targets.tracers import only_keepers
from gilk.targets.tree import ProcessTree

_PATIENCE = 5.0
_GLIMPSE = 0.01


class PtracedThreads:
    """The threads of process ``pid`` between stop() and resume(), and those of other processes that have its memory
    (sharing.py).

    Threads of the kernel among them (kernel_threads.py) are left alone: they execute no code that could be changed.
    """

    def __init__(self, pid: int, tree: ProcessTree | None = None) -> None:
        """``tree``: the tree of processes that the process belongs to; if it is followed, the threads stay traced while
        they run."""
        self.pid, self.tree = pid, tree or ProcessTree()
        self.threads: dict[int, Thread] = {}
        self.exit_status: int | None = None  # a wait(2) status, once the process is seen to have ended
        self.patience = _PATIENCE  # seconds for which stop() waits
        self._late: set[int] = set()  # threads asked to stop that have not been seen to stop or end
        self._owed: dict[int, int] = {}  # threads that stopped late and lost their turn: turns() by then
        self._held = self._lone = False
        self._lent: dict[int, Thread] = {}  # late threads that were borrowed, in their own state
        self.sharing = MemorySharing(pid)
        self._foreign: dict[int, int] = {}  # threads of other processes that share the memory: pid by tid

    @contextlib.contextmanager
    def stopped(self) -> Iterator[dict[int, Thread]]:
        """A context in which all threads are stopped; it yields them by tid. Raises TargetError `no-such-process`,
        `no-permission`, `busy`, `shared-memory`."""
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
        """The stopped thread of the process itself that is best suited to be borrowed: no signal on its way to it, and
        no system call to restart."""
        own = (thread for tid, thread in self.threads.items() if tid not in self._foreign)
        return min(own, key=lambda thread: (thread.signal != 0, thread.restarting()))

    def stop(self) -> None:
        """Stop every thread, also those that appear meanwhile. If another keeper traces the process, wait until it is
        done.

        Raises as stopped() does.
        """
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._stop(deadline)
            except TargetError as error:
                if error.slug != "already-traced" or time.monotonic() > deadline or not only_keepers(self.pid):
                    raise
                self._let_go_of_late(deadline)  # else two keepers may wait for each other's threads
                time.sleep(random.uniform(0.001, 0.01))  # a keeper holds threads for some milliseconds

    def _stop(self, deadline: float) -> None:
        """Stop the process first, then the others that share its memory.

        Once its own threads are stopped, none of them waits in vfork, so the others share its memory lastingly. Parents
        are stopped before their children, which are left alone for as long as their parents wait for them in vfork.
        """
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
            there = dict.fromkeys(ptrace.thread_ids(pid))  # a thread that executes a program may be listed twice
            fresh = [tid for tid in there if tid not in self.threads and not is_kernels(pid, tid)]
            fresh = [tid for tid in fresh if tid not in asked or is_alive(tid)]
            if not fresh and self._stands(pid):
                break
            asked.update(fresh)
            if pid != self.pid:
                self._foreign.update(dict.fromkeys(fresh, pid))
            self._stop_some(fresh, deadline)

    def _stands(self, pid: int) -> bool:
        """Whether the first thread of a process, if it was stopped, still stands there. If not, it was killed, or
        another thread executes a program, and is the first one from then on."""
        if pid not in self.threads:
            return True
        if self._has_come(pid):
            return False
        if not ptrace.is_stopped(pid):
            del self.threads[pid]
            self._late.add(pid)
        return pid in self.threads

    def _stop_other(self, pid: int, deadline: float) -> None:
        try:
            self._stop_process(pid, deadline)
        except TargetError as error:
            if error.slug == "no-permission":
                raise shared_memory(self.pid, pid) from None
            if error.slug != "no-such-process":
                raise

    def _stop_some(self, tids: list[int], deadline: float) -> None:
        """Stop some threads. A thread that does not stop in time (in vfork, or in disk wait) is let go once it does.

        The order in which they stop is not known: the end of a main thread is reported only after the end of all others
        has been seen.
        """
        with ptrace.reaped_meanwhile(self._late, self.threads.keys()):
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
                    self._has_come(tid)  # look again: a stopped thread may have been killed
                ptrace.pause(rounds)
                rounds += 1
            waiting = left

    def _ask(self, tid: int) -> bool:
        if tid in self._late:
            return True
        if not self.tree.lend(tid, self.pid) and not ptrace.seized(tid, self.options):
            return False
        self._interrupt(tid)
        return True

    def _interrupt(self, tid: int) -> None:
        self._late.add(tid)
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.INTERRUPT, tid)

    def _taken_over(self, tid: int) -> None:
        """Note that a thread has gone, and no end of it was reported: it, or another one if it was the first, has
        executed a program, and is the first thread of its process now. All others that were there have been reaped."""
        pid = self._foreign.get(tid, self.pid)
        there = [each for each in self.threads if self._foreign.get(each, self.pid) == pid]
        for each in (each for each in there if not ptrace.is_stopped(each)):
            del self.threads[each]
            with contextlib.suppress(ProcessLookupError):
                if ptrace.stopped(each) is None:
                    self._late.add(each)
        if tid != pid and pid not in self.threads:
            self._interrupt(pid)

    def _has_come(self, tid: int, stays: bool = True) -> bool:
        """Whether the thread has stopped or ended. A stopped thread goes on at once unless it ``stays``."""
        try:
            status = ptrace.stopped(tid)
        except ProcessLookupError:
            self._late.discard(tid)
            self.tree.note(tid, 0)
            self._taken_over(tid)
            return True
        if status is None:
            return False
        if not self.tree.note(tid, status):
            self._late, self.threads = set(), {}  # the process has executed another program: all known threads are gone
            return True
        if self._is_underway(tid, status):
            with contextlib.suppress(ProcessLookupError):  # any stop uses up PTRACE_INTERRUPT
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
        """Whether the thread has stopped where it cannot stay: inside a system call that gilk has it make, or inside a
        system call of its own that has begun a process or thread and whose result it does not have yet. That result
        would be lost if its registers were set later."""
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
        except ProcessLookupError:  # the thread was killed meanwhile
            self._late.add(tid)
            return
        stays = event and os.WSTOPSIG(status) != ptrace.SIGTRAP
        thread = Thread(tid, signal, registers, info=info, group_stop=stays)
        if event and thread.restart():
            with contextlib.suppress(ProcessLookupError):
                ptrace.set_registers(tid, registers)  # at once: the keeper may be killed before the thread goes on
        self.threads[tid] = thread

    def _back(self, thread: Thread) -> None:
        """Take a borrowed thread back. The signal that was on its way cannot be delivered from this stop, so it is sent
        again."""
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
        """Stop only these threads, for a moment, until resume(); returns those that have stopped, by tid.

        A thread that does not stop at once is left out, now and until it has had a processor again: where many threads
        wait for one, the program would not get on otherwise.
        """
        self._owed = {tid: had for tid, had in self._owed.items() if tid in tids and 0 < had == turns(self.pid, tid)}
        wanted = [tid for tid in tids if tid not in self.threads and tid not in self._owed]
        with contextlib.suppress(TargetError):
            self._stop_some(wanted, time.monotonic() + _GLIMPSE)
        return {tid: thread for tid, thread in self.threads.items() if tid in tids}

    def hold(self, lone: bool = True) -> Thread:
        """Take over a launched process, which is stopped already, and keep it stopped until release(). ``lone``: no
        other process waits for it, and it is killed if the keeper goes before it has begun."""
        self._held, self._lone = True, lone
        thread = Thread(self.pid, 0, ptrace.get_registers(self.pid))
        self.threads = {self.pid: thread}
        return thread

    def keep(self) -> None:
        """Stop all threads until release(). Raises as stop() does."""
        if not self._held:
            self.stop()
            self._held = True

    @property
    def holds(self) -> bool:
        """Whether this is a process that stands still until release()."""
        return self._held

    def release(self) -> None:
        self._held = self._lone = False
        self.stay()
        self.resume()

    @property
    def options(self) -> int:
        """The ptrace options of the threads (PTRACE_SETOPTIONS)."""
        return self.tree.options | (ptrace.O_EXITKILL if self._lone else 0)

    def stay(self) -> None:
        """Give the stopped threads the tree's ptrace options, if they stay traced once they run."""
        for tid in self.threads if self.tree.keeps(self.pid) else ():
            with contextlib.suppress(ProcessLookupError):
                ptrace.call(ptrace.SETOPTIONS, tid, 0, self.options)

    def run_on(self, thread: Thread, seconds: float) -> Thread:
        """Let a stopped thread, to which no signal is on its way, go on for ``seconds`` while the others stand still;
        returns its new state. It may have made other threads: see catch_up().

        The thread goes on as it would by itself, not step by step: a single step would kill it if the keeper were
        killed meanwhile. Raises ProcessLookupError when it has ended, TargetError `busy` when it does not stop again.
        """
        if self.threads.pop(thread.tid, None) is None:  # its end was seen while another thread went on
            raise ProcessLookupError
        self._late.add(thread.tid)
        self.flush(thread)
        ptrace.call(ptrace.CONT, thread.tid, 0, 0)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            ptrace.call(ptrace.INTERRUPT, thread.tid)
        self._stop_some([thread.tid], time.monotonic() + _PATIENCE)
        if thread.tid not in self.threads:
            raise ProcessLookupError
        return self.threads[thread.tid]

    def catch_up(self) -> bool:
        """Stop the threads that have come into being while a thread went on; returns whether there were any. Raises as
        stop() does."""
        before = set(self.threads)
        self._stop(time.monotonic() + self.patience)
        return not before.issuperset(self.threads)

    def give_up(self, thread: Thread, mask: int) -> None:
        """Give up a borrowed thread that has not come back in time. Once it stops, it is let go with its own registers
        and mask."""
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
        self.threads = {}
        self._foreign = {tid: pid for tid, pid in self._foreign.items() if tid in self._late}

    def _let_go(self, thread: Thread) -> None:
        try:
            self._take(thread)
            if thread.mask is not None:
                ptrace.set_mask(thread.tid, thread.mask)
            self.flush(thread)
            if thread.info is not None:
                ptrace.set_info(thread.tid, thread.info)
            if self.tree.keeps(self.pid):
                self.tree.go_on(thread, self.pid)
            else:
                ptrace.call(ptrace.DETACH, thread.tid, 0, thread.signal)
        except ProcessLookupError:
            self._late.add(thread.tid)  # it was killed in its stop; its parent is told once we have reaped it

    def _take(self, thread: Thread) -> None:
        """Have a debug register's signal lead the thread to advice, rather than reach the program."""
        if thread.signal == ptrace.SIGTRAP and self.tree.trapper is not None:
            self.tree.trapper.take(thread)

    def untrap(self) -> None:
        """End the work of the tree's trapper, while all threads stand still: they go on untraced."""
        for thread in self.threads.values():
            self._take(thread)
        self.tree.trap(None)

    def _let_go_of_late(self, deadline: float) -> None:
        rounds = 0
        while self._late and time.monotonic() < deadline:
            self.release_late()
            ptrace.pause(rounds)
            rounds += 1

    def release_late(self, besides: Collection[int] = ()) -> bool:
        """Let go of threads that stopped only after the keeper had given up on them, and forget those that ended in
        their stop. Threads in ``besides`` are left out. Returns whether there are others, which may stop at any
        moment."""
        for tid in self._late.difference(besides):
            self._has_come(tid, stays=False)
        return bool(self._late)

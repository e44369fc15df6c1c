# SPDX-License-Identifier: LGPL-2.1-or-later
"""One change of the code: in one stop of the process, with every thread led to where it may go on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from gilk.errors import TargetError
from gilk.targets import caches
from gilk.targets.copies import ONLY_COPIED_NOTHING, OnlyCopied
from gilk.targets.held import Held
from gilk.targets.live_code import LiveCode
from gilk.targets.mapping import Mapper
from gilk.targets.movement import Busy, Movement, Place, Write
from gilk.targets.newcomers import give_own, in_common
from gilk.targets.ours import led_to
from gilk.targets.places import Places, StandingJumps
from gilk.targets.staged_batches import StagedBatches
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.writer import Change
from gilk.values import dataclass

_PATIENCE = 30.0
#: Seconds that contexts are given to leave patches: at most, of the process's own time, and while it does not run.
_LEAVING, _USED, _IDLE = 60.0, 1.0, 3.0
_LOOK = 0.05  # seconds between looks at them
_PAUSE = 0.002


@dataclass(frozen=True)
class Outcome:
    """How a change went, in seconds: how long it took, and how long of that the threads stood still.

    ``strangers``: bytes that were not ours any more and were left alone.
    """

    total: float
    seconds: float
    strangers: int = 0


@dataclass(frozen=True)
class Task:
    """A change to make: ``undo`` takes the patches ``old`` out, ``do`` puts in the patches ``new``, to which control
    may be led. One of them begins with an ``exchange`` of code and copies if there is to be one: ``do``, unless there
    is nothing new.

    ``lenient``: bytes that are not gilk's any more are left alone. ``apart``: what only the copies have then.
    """

    undo: Sequence[Change]
    do: Sequence[Change]
    old: Places
    new: Places
    lenient: bool = False
    exchange: bool = False
    apart: OnlyCopied = ONLY_COPIED_NOTHING


class Changer:
    """``held`` gives what is in the process, as it is by then."""

    def __init__(
        self, process: Traced, mapper: Mapper, code: LiveCode, held: Callable[[], Held], batches: StagedBatches
    ) -> None:  # fmt: skip
        self._process = process
        self._threads = process.threads
        self._mapper = mapper
        self._memory = process.memory
        self._code = code
        self._held = held
        self._movement = Movement(process, held, batches)

    @property
    def stuck(self) -> bool:
        """Somebody may still be in a patch, or come back to one: nothing may be unmapped."""
        return self._movement.stays_inside or self._movement.left_behind

    def apply(self, task: Task) -> Outcome:
        """Raises TargetError `code-changed`, `busy`; OSError when the kernel will not have an exchange."""
        deadline = self._process.now() + _PATIENCE
        while True:
            late = self._process.now() > deadline
            try:
                return self._attempt(task, late and not task.new)
            except Busy:
                if late:
                    who = f"a thread of process {self._process.pid}, or a handler that waits,"
                    raise TargetError("busy", f"{who} stays inside an instrument", "try again later") from None
                self._process.pause(_PAUSE)

    def _attempt(self, task: Task, tolerant: bool) -> Outcome:
        """``tolerant``: threads inside an instrument may stay; the memory they run in is then never freed."""
        asked = time.perf_counter()
        with caches.elsewhere(), self._threads.stopped() as threads:
            began = time.perf_counter()
            places, moves = self._movement.stand(threads, task.old, task.new, tolerant)
            self._attach_blocks(threads)
            strangers = self._carry_out(task, threads, places, moves)
        done = time.perf_counter()
        return Outcome(done - asked, done - began, strangers)

    def repair(self, undo: Callable[[], object], restorers: frozenset[int] = frozenset()) -> None:
        """Have code put right that an abandoned session has changed. Threads that stand at one of its jumps, and
        handlers that return to one, are led to the patch first: the jump of a bounce lies amid what the original has
        there. So are handlers that wait on any stack, as nobody knows whether the program switches them. Raises OSError
        where ``undo`` does. ``restorers``: those that are there again then."""
        self.search_stacks()
        self._movement.returned_to(restorers)
        with self._threads.stopped() as threads:
            jumps = StandingJumps(self._memory, led_to(self._process.maps()))
            _, moves = self._movement.stand(threads, jumps, jumps)
            with self._moved(threads, {}, jumps), self._written(moves):
                undo()

    def wait_until_out(self) -> None:
        """Where contexts were left in patches, which lead back to the program: until they have gone on. Those that do
        not although the program runs may be left over from handlers that have ended."""
        now = self._process.now
        until, idle = now() + _LEAVING, now() + _IDLE
        began = used = self._process.cpu_time()
        while self._movement.left_behind and used - began < _USED and now() < min(until, idle):
            with self._threads.stopped() as threads:
                self._movement.left_behind = not self._movement.are_out(threads)
            self._process.pause(_LOOK)
            before, used = used, self._process.cpu_time()
            if used > before:
                idle = now() + _IDLE

    def search_stacks(self) -> None:
        """From now on, also for handlers that wait on stacks on which no thread is."""
        self._movement.searches = True

    def _carry_out(
        self, task: Task, threads: dict[int, Thread], places: dict[int, Place], moves: Sequence[Write]
    ) -> int:
        """Make a change; how many bytes were left alone. Each thread goes on rightly whenever we are killed meanwhile.

        Old patches lead back to original code, amid which a new one may begin, and new patches lead to where an old one
        may have begun. So threads and contexts go from old to new ones while the code has neither.
        """
        stay, leave = ([move for move in moves if move.leaves is leaves] for leaves in (False, True))
        self._take_bounces(threads, task.old)
        with self._written(stay):
            strangers = self._write(task, task.undo, task.exchange and not task.new)
            with self._undone(task), self._moved(threads, places, task.new), self._written(leave):
                return strangers + self._write(task, task.do, task.exchange and bool(task.new))

    def _take_bounces(self, threads: dict[int, Thread], old: Places) -> None:
        """No thread stands at the long jump of a bounce any more: amid what the original has there."""
        for thread in threads.values():
            target = self._movement.beyond_bounce(thread.registers.rip, old)
            if target is not None:
                thread.move(target)
        self._flush(threads)

    @contextlib.contextmanager
    def _moved(self, threads: dict[int, Thread], places: dict[int, Place], new: Places) -> Iterator[None]:
        """Threads are where they go on after a change; and back where they were if it cannot be made."""
        before = {tid: thread.registers.rip for tid, thread in threads.items()}
        for tid, thread in threads.items():
            self._movement.move(thread, places.get(tid), new)
        self._flush(threads)
        try:
            yield
        except BaseException:
            for tid, rip in before.items():
                if threads[tid].registers.rip != rip:
                    threads[tid].move(rip)
            self._flush(threads)
            raise

    def _flush(self, threads: dict[int, Thread]) -> None:
        for thread in threads.values():
            with contextlib.suppress(ProcessLookupError):  # it was killed in its stop
                self._threads.flush(thread)

    @contextlib.contextmanager
    def _written(self, moves: Sequence[Write]) -> Iterator[None]:
        """These words are written; and are what they were if the change cannot be made."""
        self._write_words(moves)
        try:
            yield
        except BaseException:
            self._write_words(move.undone() for move in reversed(moves))
            raise

    def _write_words(self, moves: Iterable[Write]) -> None:
        for move in moves:
            self._memory.write(move.slot, move.word.to_bytes(8, "little"))

    @contextlib.contextmanager
    def _undone(self, task: Task) -> Iterator[None]:
        """The old patches are out; and in again if the new ones cannot be put in."""
        try:
            yield
        except BaseException:
            if task.do and task.undo:
                self._write(task, [change.undone() for change in reversed(task.undo)], False)
            raise

    def _write(self, task: Task, changes: Sequence[Change], exchange: bool) -> int:
        if exchange:
            self.exchange()
        try:
            return self._code.write(changes, self._held().copies, task.lenient, task.apart)
        except BaseException:  # whatever it is: no thread has been led to where it would need what copies lead to
            if exchange:
                self.exchange()
            raise

    def exchange(self) -> None:
        """Code and copies, in a stopped process. Raises OSError; then nothing has changed."""
        self._held().copies = self._mapper.exchange(self._held().copies)

    def _attach_blocks(self, threads: dict[int, Thread]) -> None:
        """Threads that have no block of their own yet find one by the control page."""
        held = self._held()
        for thread in threads.values() if held.data else ():
            if not held.data <= thread.registers.gs_base < held.data + held.data_size:
                thread.attach_block(held.data)
        give_own(in_common(threads.values(), held), held, self._memory)

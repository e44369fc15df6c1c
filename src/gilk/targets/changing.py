# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes one change of the code, in one stop of the process, and leads every thread to where it may go on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from gilk.errors import TargetError
from gilk.targets import caches
from gilk.targets.abandoned_contexts import AbandonedContexts
from gilk.targets.another_program import program_gone
from gilk.targets.context_writes import Write
from gilk.targets.copies import ONLY_COPIED_NOTHING, OnlyCopied
from gilk.targets.given_blocks import give_blocks
from gilk.targets.held import Held
from gilk.targets.live_code import LiveCode
from gilk.targets.mapping import Mapper
from gilk.targets.movement import Busy, Movement, Standing
from gilk.targets.newcomers import give_own, in_common
from gilk.targets.ours import led_to
from gilk.targets.places import Places, StandingJumps
from gilk.targets.remains import Remains
from gilk.targets.staged_batches import StagedBatches
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.writer import Change
from gilk.values import dataclass

_PATIENCE = 30.0
_SOME = 1.0  # seconds until contexts that do not leave a patch are taken for ones that wait
#: Limits on waiting for contexts to leave patches, in seconds: of time altogether, of the process's CPU time, and of
#: time in which the process does not run.
_LEAVING, _USED, _IDLE = 60.0, 1.0, 3.0
_LOOK = 0.05  # seconds between looks at such contexts
_PASSING = 1.0  # seconds in which threads are to leave the memory of an abandoned session
_PAUSE = 0.002


@dataclass(frozen=True)
class Outcome:
    """How a change went. ``total``: the seconds that it took; ``seconds``: those of them for which the threads stood
    still. ``strangers``: the number of bytes that were not gilk's any more and were left alone."""

    total: float
    seconds: float
    strangers: int = 0


@dataclass(frozen=True)
class Task:
    """A change to make: ``undo`` takes the patches ``old`` out, ``do`` puts in the patches ``new``, to which control
    may be led. If there is an ``exchange`` of code and copies, ``do`` begins with it, or ``undo`` if there is nothing
    new.

    ``lenient``: bytes that are not gilk's any more are left alone. ``apart``: the bytes that only the copies have after
    the change.
    """

    undo: Sequence[Change]
    do: Sequence[Change]
    old: Places
    new: Places
    lenient: bool = False
    exchange: bool = False
    apart: OnlyCopied = ONLY_COPIED_NOTHING


class Changer:
    """Makes changes in one process. ``held`` is called for the memory that gilk has in the process, at the time of
    use."""

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
        self._abandoned = AbandonedContexts(process, held, self._movement.contexts)

    @property
    def stuck(self) -> bool:
        """Whether a thread may still be in a patch, or come back to one: nothing may be unmapped then."""
        return self._movement.stays_inside or self._movement.left_behind

    def apply(self, task: Task) -> Outcome:
        """Make a change, and try again while a thread is in the way. Raises TargetError `code-changed`, `busy`; OSError
        when the kernel refuses an exchange."""
        began = self._process.now()
        while True:
            waited = self._process.now() - began
            late = waited > _PATIENCE
            try:
                return self._attempt(task, late and not task.new, waited > min(_SOME, _PATIENCE))
            except Busy:
                if late:
                    who = f"a thread of process {self._process.pid}, or a handler that waits,"
                    raise TargetError("busy", f"{who} stays inside an instrument", "try again later") from None
                self._process.pause(_PAUSE)

    def _attempt(self, task: Task, tolerant: bool, late: bool) -> Outcome:
        """Try once. ``tolerant``: threads inside an instrument may stay; the memory that they run in is then never
        freed. ``late``: contexts of a program that switches stacks may stay."""
        asked = time.perf_counter()
        with caches.elsewhere(), self._threads.stopped() as threads:
            began = time.perf_counter()
            self._check_program()
            places, moves = self._movement.stand(threads, task.old, task.new, tolerant, late)
            self.attach_blocks(threads)
            strangers = self._carry_out(task, threads, places, moves)
        done = time.perf_counter()
        return Outcome(done - asked, done - began, strangers)

    def _check_program(self) -> None:
        """Check, while all threads stand still, that they execute the program in which gilk has its memory. Raises
        TargetError `no-such-process`."""
        held = self._held()
        if held.data and not self._process.still_has(held.data):
            raise program_gone(self._process.pid)

    def repair(self, undo: Callable[[], object], restorers: frozenset[int] = frozenset()) -> None:
        """Have ``undo`` put code right that an abandoned session has changed.

        Threads that stand at one of its jumps, and handlers that return to one, are led to the patch first: the jump of
        a bounce may lie in the middle of an original instruction. The same goes for handlers that wait on any stack,
        since nobody knows whether the program switches stacks. ``restorers``: signal restorers that the repair
        uncovers. Raises OSError where ``undo`` does.
        """
        self.search_stacks()
        self._movement.contexts.returned_to(restorers)
        with self._threads.stopped() as threads:
            jumps = StandingJumps(self._memory, led_to(self._process.maps()))
            _, moves = self._movement.stand(threads, jumps, jumps)
            with self._moved(threads, {}, jumps), self._written(moves):
                undo()

    def wait_for_passers(self, remains: Remains) -> bool:
        """Lead handlers that wait amid the patches of an abandoned session out of them; wait until no thread, and no
        such handler, is in its code, at most for _PASSING. Returns whether none is."""
        until = self._process.now() + _PASSING
        while True:
            with self._threads.stopped() as threads:
                self._abandoned.lead_out(threads, remains, until)
                if self._abandoned.are_out(threads, remains):
                    return True
            if self._process.now() > until:
                return False
            self._process.pause(_LOOK)

    def wait_until_out(self) -> None:
        """If contexts were left in patches, lead them out; wait until threads that were left there, and contexts for
        which that cannot be done, have gone on. Contexts that stay although the program runs may be remains of handlers
        that have ended; so the wait ends at the latest by _LEAVING, _USED or _IDLE."""
        now = self._process.now
        until, idle = now() + _LEAVING, now() + _IDLE
        began = used = self._process.cpu_time()
        while self.stuck and used - began < _USED and now() < min(until, idle):
            with self._threads.stopped() as threads:
                self._movement.lead_out(threads)
                if self._movement.are_out(threads):
                    self._movement.left_behind = False
                    self._movement.stays_inside &= self._movement.are_called(threads)
            self._process.pause(_LOOK)
            before, used = used, self._process.cpu_time()
            if used > before:
                idle = now() + _IDLE

    def search_stacks(self) -> None:
        """From now on, also search stacks on which no thread is for handlers that wait there."""
        self._movement.searches = True

    def _carry_out(
        self, task: Task, threads: dict[int, Thread], places: dict[int, Standing], moves: Sequence[Write]
    ) -> int:
        """Make a change; returns how many bytes were left alone. At every step each thread would go on rightly if the
        keeper were killed.

        Old patches lead back to original code, in the middle of which a new site may begin, and new patches lead to
        where an old site may have begun. So threads and contexts are moved from old to new patches while the code has
        neither.
        """
        stay, leave = ([move for move in moves if move.leaves is leaves] for leaves in (False, True))
        self._take_bounces(threads, task.old)
        with self._written(stay):
            strangers = self._write(task, task.undo, task.exchange and not task.new)
            with self._undone(task), self._moved(threads, places, task.new), self._written(leave):
                return strangers + self._write(task, task.do, task.exchange and bool(task.new))

    def _take_bounces(self, threads: dict[int, Thread], old: Places) -> None:
        """Move threads away from the long jump of a bounce, which may lie in the middle of an original instruction."""
        for thread in threads.values():
            target = self._movement.beyond_bounce(thread.registers.rip, old)
            if target is not None:
                thread.move(target)
        self._flush(threads)

    @contextlib.contextmanager
    def _moved(self, threads: dict[int, Thread], places: dict[int, Standing], new: Places) -> Iterator[None]:
        """A context in which threads stand where they go on after the change; they are moved back if the change
        fails."""
        before = {tid: thread.context() for tid, thread in threads.items()}
        for tid, thread in threads.items():
            self._movement.move(thread, places.get(tid), new)
        self._flush(threads)
        try:
            yield
        except BaseException:
            for tid, registers in before.items():
                if threads[tid].registers.rip != registers.rip:
                    threads[tid].take(registers)
            self._flush(threads)
            raise

    def _flush(self, threads: dict[int, Thread]) -> None:
        for thread in threads.values():
            with contextlib.suppress(ProcessLookupError):  # the thread was killed in its stop
                self._threads.flush(thread)

    @contextlib.contextmanager
    def _written(self, moves: Sequence[Write]) -> Iterator[None]:
        """A context in which these words are written; they are restored if the change fails."""
        self._write_words(moves)
        try:
            yield
        except BaseException:
            self._write_words(move.undone() for move in reversed(moves))
            raise

    def _write_words(self, moves: Iterable[Write]) -> None:
        for move in moves:
            self._memory.write(move.slot, move.data)

    @contextlib.contextmanager
    def _undone(self, task: Task) -> Iterator[None]:
        """A context in which the old patches are out; they are put in again if the new ones cannot be put in."""
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
        except BaseException:  # exchange back after any failure: no thread has been led to what only the copies have
            if exchange:
                self.exchange()
            raise

    def exchange(self) -> None:
        """Exchange the code and its copies in a stopped process. Raises OSError; then nothing has changed."""
        self._held().copies = self._mapper.exchange(self._held().copies)

    def attach_blocks(self, threads: dict[int, Thread]) -> None:
        """Give threads a block, or point their GS base at the control page, by which they find one at their next
        hit."""
        held = self._held()
        if held.data:
            with contextlib.suppress(OSError):  # if the program has made gilk's memory inaccessible
                give_blocks(self._process.pid, threads.values(), held, self._memory)
        for thread in threads.values() if held.data else ():
            if not held.data <= thread.registers.gs_base < held.data + held.data_size:
                thread.attach_block(held.data)
        give_own(in_common(threads.values(), held), held, self._memory)

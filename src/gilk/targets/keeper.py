# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper of a target: stops it, changes its code, and changes it back.

The keeper lives in a process of its own (serving.py), so that a client that dies leaves no thread stopped and no code
changed: the keeper undoes everything and goes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gilk.errors import TargetError
from gilk.targets import advised, caches, taken_away
from gilk.targets import copies as code_copies
from gilk.targets import gates as held_threads
from gilk.targets.batch import Batch
from gilk.targets.changing import Changer, Outcome, Task
from gilk.targets.copies import Copy, Units
from gilk.targets.frames import hidden_restorers
from gilk.targets.heirs import Heirs
from gilk.targets.held import Held
from gilk.targets.left_alone import leave_alone
from gilk.targets.live_code import LiveBatch, LiveCode
from gilk.targets.mapping import Mapper
from gilk.targets.places import Places
from gilk.targets.remains import Remains
from gilk.targets.running import Sample, standing
from gilk.targets.semaphores import Raised, Semaphore, Semaphores
from gilk.targets.staged_batches import StagedBatches
from gilk.targets.steps import Exchanged, Steps
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced
from gilk.targets.writer import Change, combine, current
from gilk.values import dataclass

_STAYS = "gilk's memory stays mapped in process {pid}: a thread, or a handler that waits, may still come back to it"


@dataclass(frozen=True)
class _Prepared:
    """A change that is ready to be made once the threads stand still."""

    remove: Units
    add: Units
    steps: Steps
    task: Task


class Keeper:
    """Holds one process, by whichever means it is reached (traced.py). All calls come from one OS thread."""

    def __init__(self, process: Traced) -> None:
        self.process = process
        self.memory = process.memory
        self.held = Held()
        self.mapper = Mapper(process, lambda: self.held)
        self.semaphores = Semaphores(process, lambda: self.held.raised_name, self.mapper.map_record)
        self._batches = StagedBatches()
        self._unsettled: list[LiveBatch] = []  # in force, but their homes are not noted yet
        self._code = LiveCode(process)
        self._changer = Changer(process, self.mapper, self._code, lambda: self.held, self._batches)
        self._heirs = Heirs(process, lambda: self.held, self._keeper_of)
        self._exchanged = Exchanged()
        self._expected: Units = {}
        self._ready: _Prepared | None = None  # the change that expect() has prepared
        self._warm: list[caches.Range] = []  # memory to be read right before that change
        self._made: _Prepared | None = None  # the last change, until catch_up() has noted it
        self.stay_word = 0  # address of the word by which the target says that all stays; 0: none
        self.notes: list[str] = []  # for the user, about children and shared blocks

    # Memory, semaphores and threads of the target.

    def unshare_memory(self, address: int, size: int) -> bool:
        """Unmap shared memory. Returns False if a thread may still use it, which leaves it until the end, or if the
        process has gone."""
        if self._changer.stuck or not self.present():
            return False
        self.mapper.unshare_memory(address, size)
        return True

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """The pairs (handler, restorer) of those of ``signals`` whose handlers are given the interrupted state
        (SA_SIGINFO)."""
        return self.mapper.handlers(signals) if self.present() else []

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        """Increment semaphores until the end; returns those that were incremented."""
        return self.semaphores.raise_(counters) if self.present() else []

    def lower_semaphores(self, raised: list[Raised]) -> None:
        """Decrement semaphores that were raised, before the end; also in children that have inherited them."""
        for one in itertools.chain((self,), self._heirs.keepers()):
            with contextlib.suppress(TargetError, OSError):  # close() lowers those that are left
                one.semaphores.lower(raised)

    def sample(self, stack: int) -> list[Sample]:
        """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each, fewer when many
        run."""
        return self.process.sample(self.held, self._batches.everywhere(), stack) if self.present() else []

    def standing(self, stack: int) -> list[Sample]:
        """Samples of all threads, with up to ``stack`` bytes of the stack of each, fewer when there are many."""
        if not self.present():
            return []
        with self.process.threads.stopped() as threads:
            patches = self._batches.everywhere()
            return standing(self.process.pid, threads, self.memory, self.held, patches, stack)

    def under_way(self, word: int) -> list[str]:
        """The names of the functions that have calls with advice under way, here or in children that have inherited the
        advice; sorted.

        If there are none, and ``word`` is not 0, the eight bytes at address ``word`` become 0 while all threads stand
        still: the process goes on with its advice switched off.
        """
        found = {name for one in self._heirs.keepers() for name in one.under_way(0)}
        if not self.present():
            return sorted(found)
        with self.process.threads.stopped() as threads:
            for one in threads.values():
                found |= advised.under_way(self.held, self.memory, one.registers.gs_base, one.registers.rsp)
            if word and not found:
                self.memory.write(word, bytes(8))
        return sorted(found)

    def attach_blocks(self, threads: dict[int, Thread]) -> None:
        """Have stopped threads find their blocks, though no patch leads them to one."""
        self._changer.attach_blocks(threads)

    # Changing code.

    def search_stacks(self) -> None:
        """Note that the program may leave signal handlers waiting while it runs something else (targets/parked.py)."""
        self._changer.search_stacks()

    def stage(self, number: int, batch: Batch) -> None:
        """Keep a batch ready under a number that the client chose."""
        self._batches.stage(number, batch)

    def change(self, remove: Units, add: Units) -> Outcome:
        """Undo some units and do others, in one stop. Raises TargetError `code-changed`, `busy`."""
        return self._make(self._prepared(remove, add))

    def expect(self, units: Units, busy: Units) -> None:
        """Prepare a change that adds ``units``, as far as it does not depend on where the threads are.

        ``busy``: the units whose code is executed often, whether added or not.
        """
        self._expected, self._ready = units, self._prepared({}, units)
        self._warm = caches.ranges(self._chosen(busy), self.held.copies if self._ready.steps.exchange else ())

    def begin(self) -> Outcome:
        """Make the change that was expected last. Raises as change() does."""
        wanted = self._ready or self._prepared({}, self._expected)
        caches.read(self.memory, self._warm)
        return self._make(wanted)

    def _prepared(self, remove: Units, add: Units) -> _Prepared:
        steps = self._exchanged.steps(self.held.copies, self._batches.active, remove, add)
        return self._steps(remove, add, steps)

    def _steps(self, remove: Units, add: Units, steps: Steps) -> _Prepared:
        undo, do = self._changes(steps, bool(add))
        apart = self._exchanged.after(self.held.copies, steps)
        places = self._batches.places(remove), self._batches.places(add)
        task = Task(undo, do, *places, not add, steps.exchange, apart)
        return _Prepared(remove, add, steps, task)

    def _changes(self, steps: Steps, adds: bool) -> tuple[list[Change], list[Change]]:
        """The changes that take patches out, then those that put some in. With an exchange, one of the lists has both,
        and the other is empty."""
        removed, added = self._chosen(steps.remove), self._chosen(steps.add)
        if steps.exchange:
            both = [combine(removed, added)]
            return ([], both) if adds else (both, [])
        return [combine(removed, [])] if removed else [], [combine([], added)] if added else []

    def _make(self, wanted: _Prepared) -> Outcome:
        if wanted.add:
            taken_away.check(self.process, self.held)
        try:
            outcome = self._changer.apply(wanted.task)
        except OSError:
            if not wanted.steps.exchange:
                raise
            # The kernel has refused the exchange: write byte by byte instead.
            wanted = self._steps(wanted.remove, wanted.add, Steps(False, wanted.remove, wanted.add))
            outcome = self._changer.apply(wanted.task)
        self._ready, self._made = None, wanted
        return outcome

    def catch_up(self) -> None:
        """Note what the last change has made of the code. This can wait until the client has its answer."""
        made, self._made = self._made, None
        if made is None:
            return
        self._exchanged.made(self.held.copies, made.steps)
        live = self._batches.live
        for n, units in made.remove.items():
            live[n].active -= units
        for n, units in made.add.items():
            live[n].active |= units
        self._unsettled += [live[n] for n in made.add]
        with contextlib.suppress(TargetError, OSError):  # else after the next change
            self._code.settle(self._unsettled, self.held.copies)
            self._unsettled = []

    def _chosen(self, units: Units) -> list[Batch]:
        return list(self._batches.only(units).values())

    def _idle(self, units: Units) -> Units:
        """The units that are not in force."""
        return {n: some - self._batches.live[n].active for n, some in units.items()}

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        """Prepare copies of the code in which these units are in force, for ``change`` to exchange the code for;
        returns the copies. Raises TargetError `code-changed`."""
        chosen = self._batches.only(self._idle(units))
        if self.held.copies:
            self._copy_more(chosen)
            return tuple(self.held.copies)
        change, maps = combine([], list(chosen.values())), self.process.maps()
        copies = self.mapper.copy(change, maps)
        if copies:
            self._code.note(change.at, maps)
            self.held.copies = list(copies)
            self._exchanged = Exchanged()
            self._exchanged.more(code_copies.units_inside(copies, chosen), chosen)
            self._ready = None
        return tuple(copies)

    def _copy_more(self, chosen: dict[int, Batch]) -> None:
        """Add units to the existing copies, if these wait for an exchange: those units that lie in the copies as a
        whole."""
        if any(copy.in_force for copy in self.held.copies):
            return
        inside = code_copies.units_inside(self.held.copies, chosen)
        fresh = {n: units - self._exchanged.only_copied.get(n, set()) for n, units in self._idle(inside).items()}
        self._exchanged.more(fresh, {n: chosen[n] for n, units in fresh.items() if units})
        self._mirror(self._chosen(fresh), copied=True)
        self._ready = None

    def give_up(self, units: Units) -> None:
        """Note that units, which are not active, will not become active any more: copies that wait with them get the
        code that is executed there."""
        gone = self._exchanged.less(units)
        if gone and not any(copy.in_force for copy in self.held.copies):
            self._mirror(self._chosen(gone), copied=False)
            self._ready = None

    def _mirror(self, batches: Sequence[Batch], copied: bool) -> None:
        """Write the bytes of ``batches`` into the copies that are not executed: those of the patched code if
        ``copied``, else those that are executed."""
        for batch in batches:
            order = np.argsort(batch.at, kind="stable")
            at, values = batch.at[order], batch.new[order]
            with contextlib.suppress(OSError):  # the code has been unmapped
                values = values if copied else current(self.memory, at)
                code_copies.mirror(self.memory, self.held.copies, at, values, code_copies.ONLY_COPIED_NOTHING)

    def forget(self, number: int) -> None:
        """Drop a batch without active units. A forked child may still have it in force: it is remembered to the end."""
        self._batches.forget(number)

    def put_back(self, copies: tuple[Copy, ...]) -> None:
        """Have the original code executed in place of copies that an abandoned session has made."""
        self._changer.repair(lambda: self.mapper.put_back(copies))

    def repair(self, pieces: list[tuple[int, bytes]], remains: Remains) -> bool:
        """Put bytes back that an abandoned session has changed; ``pieces`` are (address, original). Returns whether
        nothing is in the code that ``remains`` of that session any more."""

        def undo() -> None:
            for address, original in pieces:
                self.memory.write(address, original)

        self._changer.repair(undo, hidden_restorers(pieces, self.memory))
        return self._changer.wait_for_passers(remains)

    # The end.

    def close(self) -> bool:
        """Restore all code here and in forked children, and unmap all memory of gilk's; returns whether every byte of
        code is what it was."""
        staged = self._batches.all
        restored = True
        if self.held.name and self.present():
            try:
                restored = self._undo_own(staged)
            except ProcessLookupError:  # the process has ended while its memory was written to
                pass
            except TargetError as error:
                if error.slug != "no-such-process":
                    self._heirs.undo(staged, self.notes.append)
                    raise
        restored &= self._heirs.undo(staged, self.notes.append)
        self._let_go()
        return restored

    def leaves_all(self) -> bool:
        """Whether everything in the target is to stay there without a keeper, as its word says. If so, the keeper opens
        all gates, so that no thread waits for a client, has threads take over the buffers of those that have ended, and
        forgets the target: `gilk restore` needs nothing of what it knows. Raises OSError."""
        if not (self.stay_word and self.held.name and self.present() and any(self.memory.read(self.stay_word, 8))):
            return False
        self._open_gates()
        leave_alone(self.memory, self.held.data)
        self._let_go()
        return True

    def _undo_own(self, staged: list[LiveBatch]) -> bool:
        self.notes += taken_away.notes(self.process, self.held)
        with contextlib.suppress(OSError):  # the program has made gilk's memory inaccessible
            self._open_gates()
        self.semaphores.lower_all()
        self.change({n: set(some) for n, some in self._batches.active.items()}, {})
        self.catch_up()
        restored = self._is_original(staged)
        if not restored:  # other libraries have been mapped where batches were applied
            self._undo_last_first(staged)
            restored = self._is_original(staged)
        self._take_out()
        return restored

    def _is_original(self, staged: list[LiveBatch]) -> bool:
        return self._code.is_original(staged, self.held.copies)

    def _let_go(self) -> None:
        for fd in (self.held.code_fd, self.held.data_fd):
            if fd >= 0:
                os.close(fd)
        self._batches.clear()
        self._unsettled, self.held = [], Held()
        self._exchanged = Exchanged()
        self._expected, self._ready, self._warm, self._made = {}, None, [], None
        self.stay_word = 0

    def _open_gates(self) -> None:
        """Release all threads that wait for a client at a gate (native/runtime/gate.c)."""
        for control in self.held.controls:
            held_threads.open_gates(self.memory, control)

    def have_gates(self, control: int) -> None:
        """Note that threads may wait at gates of the client with this control page."""
        self.held.gates.add(control)

    def have_no_gates(self, control: int) -> None:
        """Note that the client with this control page goes, and release the threads that wait for it."""
        self.held.gates.discard(control)
        if self.present():
            held_threads.open_gates(self.memory, control)

    def present(self) -> bool:
        """Whether the process has neither ended nor executed another program since it was set up."""
        return not self.held.code or self.process.still_has(self.held.code)

    # Between requests.

    def release_late(self) -> bool:
        """Let go of threads that stopped too late, here and in children; returns whether others may still stop."""
        return self.process.release_late()

    def look_for_newcomers(self) -> None:
        """Look for processes that have come to share the memory by a clone() that leaves them their parent's block."""
        if self.held.data and self.present():
            self.notes += self.process.look_for_newcomers(lambda: self.held)

    @contextlib.contextmanager
    def _keeper_of(self, pid: int) -> Iterator[Keeper]:
        """A keeper of a forked child. Raises TargetError `no-such-process`, `no-permission`."""
        with self.process.heir(pid) as process:
            child = Keeper(process)
            copies = code_copies.found(process.maps(), self.held.copies) if self.held.copies else []
            child.held = replace(self.held, copies=copies)
            child.mapper.adopt()
            child._code.homes = self._code.homes
            yield child

    def undo(self, staged: list[LiveBatch]) -> bool:
        """Undo everything in a child, which may have any batch in force; returns whether its code is what it was."""
        try:
            if any(copy.in_force for copy in self.held.copies):
                # If the exchange fails, the batches are undone in the copies.
                with contextlib.suppress(OSError), self.process.threads.stopped():
                    self._changer.exchange()
            self.semaphores.lower_all()
            self._undo_last_first(staged)
            restored = self._is_original(staged)
            self._take_out()
        except TargetError as error:
            if error.slug != "no-such-process":
                raise
            return True
        return restored

    def _undo_last_first(self, staged: list[LiveBatch]) -> None:
        """Undo all batches, any of which may be in force, the newest first: it was applied last where several touch."""
        batches = [one.batch for one in staged]
        changes = [combine([batch], []) for batch in reversed(batches)]
        self._changer.apply(Task(changes, [], Places(batches), Places([]), lenient=True))

    def _take_out(self) -> None:
        self._changer.wait_until_out()
        if self.held.name and self._changer.stuck:
            self.notes.append(_STAYS.format(pid=self.process.pid))
        elif self.held.name:
            self.mapper.take_out()

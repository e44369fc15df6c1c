# SPDX-License-Identifier: LGPL-2.1-or-later
"""The one who holds a target: stops it, changes its code, and changes it back.

It lives in a process of its own (server.py), so that a client that dies leaves
no thread stopped and no code changed: the keeper undoes everything and goes.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gilk.errors import TargetError
from gilk.target import copies as code_copies
from gilk.target import semaphores
from gilk.target.batch import Batch
from gilk.target.call_list import LOOP, CallList
from gilk.target.changing import Changer, Outcome, Task
from gilk.target.copies import Copy, Units
from gilk.target.held import ArenaMap, Held
from gilk.target.live_code import LiveCode, Staged
from gilk.target.maps import holders, occupied, read_maps
from gilk.target.memory import Memory
from gilk.target.places import Places
from gilk.target.refusals import check_free, check_gs, expecting, refusable
from gilk.target.remote import MADV_WIPEONFORK, MADVISE, Remote, remote
from gilk.target.running import Sample, identity, register_values, running, shown
from gilk.target.semaphores import Semaphore
from gilk.target.shared_memory import room_for_memory, share
from gilk.target.steps import Exchanged, Steps
from gilk.target.world import Thread, World
from gilk.target.writer import combine

_PAGE = 4096
_SA_SIGINFO = 4
_GATES_AT, _GATES = 1024, 8 * 32  # in the control page, native/abi/gilk_abi.h; bytes
_REMEMBERED = 4
_STACKS = 16 << 20  # bytes of all stacks that are copied in one stop


@dataclass(frozen=True)
class _Prepared:
    """A change that can be made as soon as the threads stand still."""

    remove: Units
    add: Units
    steps: Steps
    task: Task


class Keeper:
    """Holds process ``pid``. All calls come from one OS thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory = Memory(pid)
        self.world = World(pid)
        self.held = Held()
        self._staged: dict[int, Staged] = {}
        self._past: list[Staged] = []
        self._everywhere: Places | None = None  # the patches of all batches, made when asked for
        self._code = LiveCode(pid, self.memory)
        self._changer = Changer(self.world, self.memory, self._code, lambda: self.held, self._all_patches)
        self._known_places: dict[object, Places] = {}
        self._exchanged = Exchanged()
        self._expected: Units = {}
        self._ready: _Prepared | None = None  # for what is expected
        self._made: _Prepared | None = None  # the last change, until it is noted
        self._lowered = False  # the semaphores that are held were lowered again

    # What is put into the target, once.

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """Create and map the shared memory; (code fd, data fd) for the client. A page of each is ours."""
        held = self.held
        with self.world.stopped() as threads:
            check_gs(self.pid, self.memory, threads.values())
            with refusable(self.pid), remote(self.world, self.memory) as call:
                held.name = name
                held.code_size, held.data_size = code_size + _PAGE, data_size + _PAGE
                held.code_fd, held.code = share(call, self.pid, held.code_name, held.code_size, call.code)
                held.data_fd, held.data = share(call, self.pid, f"gilk-data-{name}", held.data_size, call.data)
        with mmap.mmap(held.code_fd, _PAGE, offset=code_size) as page:  # pwrite(2) heeds the limit on the user's files
            page[: len(LOOP)] = LOOP
        held.calls = CallList(held.code + code_size, held.data + data_size)
        return held.code_fd, held.data_fd

    def share_memory(self, size: int) -> tuple[int, int]:
        """More memory for the client: its file descriptor, and its address."""
        with refusable(self.pid), self._borrowed() as call:
            at = room_for_memory(occupied(read_maps(self.pid), growth=False), size)
            return share(call, self.pid, self.held.memory_name, size, lambda size, fd: call.data(size, fd, at))

    def unshare_memory(self, address: int, size: int) -> bool:
        """Unless a thread may still be where it is used: then it stays until the end."""
        if self._changer.stuck or not self.present():
            return False
        with refusable(self.pid), self._borrowed() as call:
            call.unmap(address, size)
        return True

    def map_arena(self, arena: ArenaMap) -> None:
        """With its key page. Raises MemoryTaken."""
        with refusable(self.pid), self._borrowed() as call:
            check_free(self.pid, arena.start, arena.base + arena.size)
            call.anonymous(arena.start, arena.held + _PAGE)
            self.held.arenas.append(arena)
            call.call(MADVISE, arena.base - _PAGE, _PAGE, MADV_WIPEONFORK)
            call.again(self.held.code + arena.offset, arena.size, arena.base)

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        """Single pages for puns (address -> offset); those that the process has meanwhile mapped itself come back."""
        with refusable(self.pid), self._borrowed() as call:
            space = occupied(read_maps(self.pid), growth=False)
            free = [page for page in pages if space.free(page, page + _PAGE)]
            for address in free:
                call.again(self.held.code + pages[address], _PAGE, address)
                self.held.pages[address] = pages[address]
        return sorted(pages.keys() - set(free))

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """(handler, restorer) of those of ``signals`` whose handlers are given the interrupted state (SA_SIGINFO)."""
        if not self.present():
            return []
        with refusable(self.pid), self._borrowed() as call:
            found = call.handlers(signals)
        return sorted(
            {(handler, restorer) for handler, flags, restorer in found if handler > 1 and flags & _SA_SIGINFO}
        )

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Semaphore]:
        """Until the end, add one to each; those that there are."""
        with self.world.stopped():
            self._lowered = False
            changed = semaphores.change(self.pid, self.memory, counters, 1)
        self.held.semaphores += changed
        return changed

    def lower_semaphores(self, counters: list[Semaphore]) -> None:
        """Before the end, some that were raised."""
        with self.world.stopped():
            semaphores.change(self.pid, self.memory, counters, -1)
        for one in counters:
            self.held.semaphores.remove(one)

    def _lower_semaphores(self) -> None:
        """Once, however often the end is tried. A child that forked before they were raised has none to lower."""
        if self._lowered or not self.held.semaphores:
            return
        with contextlib.suppress(OSError), self.world.stopped():
            semaphores.change(self.pid, self.memory, self.held.semaphores, -1)
            self._lowered = True

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Remote]:
        """All threads stand still, and one makes system calls for us."""
        with self.world.stopped(), remote(self.world, self.memory) as call:
            yield call

    def sample(self, stack: int) -> list[Sample]:
        """Where the threads are that run just now, and so many bytes of the stack of each: fewer when many run."""
        if not self.present():
            return []
        where = running(self.pid)
        stack = min(stack, _STACKS // max(len(where), 1))
        try:
            threads = self.world.stop_some(where)
            return [self._sampled(thread, where[tid], stack) for tid, thread in threads.items()]
        finally:
            self.world.resume()

    def _sampled(self, thread: Thread, cpu: int, stack: int) -> Sample:
        pc = shown(thread.registers, self.held, self._all_patches(), self.memory)
        known, above = register_values(thread.registers, pc), self.memory.some(thread.registers.rsp, stack)
        return Sample(thread.tid, cpu, identity(thread, self.memory), known, above)

    # Changing code.

    def stage(self, number: int, batch: Batch) -> None:
        """Have a batch ready under a number of the client's choice."""
        self._staged[number] = Staged(batch)
        self._everywhere = None

    def change(self, remove: Units, add: Units) -> Outcome:
        """Undo some units and do others, in one stop. Raises TargetError `code-changed`, `busy`."""
        return self._make(self._prepared(remove, add))

    def expect(self, units: Units) -> None:
        """A change is coming that adds these: have everything ready that does not depend on where the threads are."""
        self._expected, self._ready = units, self._prepared({}, units)

    def begin(self) -> Outcome:
        """Make the change that was expected last. Raises as change() does."""
        return self._make(self._ready or self._prepared({}, self._expected))

    def _prepared(self, remove: Units, add: Units) -> _Prepared:
        active = {n: one.active for n, one in self._staged.items()}
        return self._steps(remove, add, self._exchanged.steps(self.held.copies, active, remove, add))

    def _steps(self, remove: Units, add: Units, steps: Steps) -> _Prepared:
        changes = [combine(self._chosen(steps.remove), self._chosen(steps.add))]
        task = Task(changes, self._places(remove), self._places(add), not add, steps.exchange)
        return _Prepared(remove, add, steps, task)

    def _make(self, wanted: _Prepared) -> Outcome:
        try:
            outcome = self._changer.apply(wanted.task)
        except OSError:
            if not wanted.steps.exchange:
                raise
            # The kernel will not have it: byte by byte, then.
            wanted = self._steps(wanted.remove, wanted.add, Steps(False, wanted.remove, wanted.add))
            outcome = self._changer.apply(wanted.task)
        self._ready, self._made = None, wanted
        return outcome

    def catch_up(self) -> None:
        """Note what the last change has made of the code, which can wait until the client has its answer."""
        made, self._made = self._made, None
        if made is None:
            return
        self._exchanged.made(self.held.copies, made.steps)
        with self._unless_gone():
            self._code.settle([self._staged[n] for n in made.add], self.held.copies)
        for n, units in made.remove.items():
            self._staged[n].active -= units
        for n, units in made.add.items():
            self._staged[n].active |= units

    @contextlib.contextmanager
    def _unless_gone(self) -> Iterator[None]:
        """A process that has ended meanwhile has no code to note."""
        try:
            yield
        except TargetError as error:
            if error.slug != "no-such-process":
                raise

    def _places(self, units: Units) -> Places:
        """Of a change that is made again and again, they are kept."""
        key = tuple((n, frozenset(some)) for n, some in units.items())
        if key not in self._known_places:
            while len(self._known_places) >= _REMEMBERED:
                self._known_places.pop(next(iter(self._known_places)))
            self._known_places[key] = Places(self._chosen(units))
        return self._known_places[key]

    def _chosen(self, units: Units) -> list[Batch]:
        return [self._staged[n].batch.only(some) for n, some in units.items() if some]

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        """Have copies of the code ready in which these units are in force, for ``change`` to exchange it for; those
        that were made. Raises TargetError `code-changed`."""
        if self.held.copies:
            return tuple(self.held.copies)
        chosen = {n: self._staged[n].batch.only(some) for n, some in units.items() if some}
        change, maps = combine([], list(chosen.values())), read_maps(self.pid)
        copies = code_copies.place(maps, code_copies.worth_copying(maps, change.at))
        try:
            with self._borrowed() as call:
                code_copies.reserve(call, copies)
            with expecting(self.pid):
                code_copies.fill(self.memory, copies, change)
            with self._borrowed() as call:
                code_copies.make_executable(call, copies)
        except (OSError, TargetError) as error:
            self._unmap(copies)
            if isinstance(error, TargetError):
                raise
            return ()
        self._code.note(change.at, maps)
        self.held.copies = list(copies)
        self._exchanged = Exchanged(code_copies.units_inside(copies, chosen))
        self._ready = None
        return tuple(copies)

    def put_back(self, copies: Sequence[Copy]) -> None:
        """Undo an exchange that somebody else has made."""
        with self._borrowed() as call:
            for copy in copies:
                copy.put_back(call)

    def _unmap(self, copies: list[Copy]) -> None:
        with contextlib.suppress(OSError), self._borrowed() as call:
            for copy in copies:
                with contextlib.suppress(OSError):
                    copy.unmap(call)

    def forget(self, number: int) -> None:
        """Drop a batch of which nothing is active. A forked child may still have it, so it is known until the end."""
        assert not self._staged[number].active
        self._past.append(self._staged.pop(number))
        self._everywhere = None

    def _all_patches(self) -> Places:
        if self._everywhere is None:
            self._everywhere = Places([one.batch for one in self._staged.values()])
        return self._everywhere

    # The end.

    def close(self) -> bool:
        """Restore all code here and in forked children, take out what was put in; whether every byte is what it was."""
        staged = [*self._past, *self._staged.values()]
        if not self.present():
            restored = self._undo_children(staged)
            self._let_go()
            return restored
        restored = True
        try:
            self._open_gates()
            self._lower_semaphores()
            self.change({n: set(one.active) for n, one in self._staged.items()}, {})
            self.catch_up()
            restored = self._is_original(staged)
            if not restored:  # libraries have come to lie where others were
                self._undo_last_first(staged)
                restored = self._is_original(staged)
            restored &= self._undo_children(staged)
            self._take_out()
        except TargetError as error:
            if error.slug != "no-such-process":
                raise
        self._let_go()
        return restored

    def _is_original(self, staged: list[Staged]) -> bool:
        return self._code.is_original(staged, self.held.copies)

    def _let_go(self) -> None:
        self._known_places = {}
        self._staged, self._past, self.held = {}, [], Held()
        self._exchanged = Exchanged()
        self._expected, self._ready, self._made = {}, None, None

    def _open_gates(self) -> None:
        """No thread waits for a client any more (native/runtime/gate.c)."""
        if self.held.data:
            self.memory.write(self.held.data + _GATES_AT, bytes(_GATES))

    def present(self) -> bool:
        """The address space that we set up is still there: the process has neither ended nor executed a program.

        That is the one that our memory file is open on (proc(5): it reads nothing once it has gone).
        """
        if not self.held.code:
            return True
        try:
            return bool(self.memory.read(self.held.code, 1))
        except OSError:
            return False

    def _undo_children(self, staged: list[Staged]) -> bool:
        """All of them, whatever becomes of one."""
        results = [child.undo(staged) for child in self._children()]
        return all(results)

    def _children(self) -> Iterator[Keeper]:
        """Keepers of the other processes that have our memory: forked children, and theirs."""
        if not self.held.name:
            return
        for pid in holders(self.held.code_name):
            if pid != self.pid:
                with contextlib.suppress(TargetError):
                    child = Keeper(pid)
                    child.held = replace(self.held, copies=self._copies_in(pid))
                    child._code.homes = self._code.homes
                    yield child

    def _copies_in(self, pid: int) -> list[Copy]:
        return code_copies.found(read_maps(pid), self.held.copies) if self.held.copies else []

    def undo(self, staged: list[Staged]) -> bool:
        """In a child, which may have any of the batches in force; whether its code is then what it was."""
        try:
            if any(copy.in_force for copy in self.held.copies):
                with contextlib.suppress(OSError), self.world.stopped():  # else it is the copies that are written
                    self._changer.exchange()
            self._lower_semaphores()
            self._undo_last_first(staged)
            restored = self._is_original(staged)
            self._take_out()
        except TargetError as error:
            if error.slug != "no-such-process":
                raise
            return True
        return restored

    def _undo_last_first(self, staged: list[Staged]) -> None:
        """Any may be in force; of those that touch the same bytes the last one."""
        batches = [one.batch for one in staged]
        changes = [combine([batch], []) for batch in reversed(batches)]
        self._changer.apply(Task(changes, Places(batches), Places([]), lenient=True))

    def _take_out(self) -> None:
        held = self.held
        if not held.name or self._changer.stuck:
            return
        with contextlib.suppress(TargetError, OSError), self.world.stopped() as threads:
            with contextlib.suppress(PermissionError), remote(self.world, self.memory) as call:
                for copy in held.copies:
                    copy.unmap(call)
                for address in held.pages:
                    call.unmap(address, _PAGE)
                for arena in held.arenas:
                    call.unmap(arena.start, arena.size + arena.base - arena.start)
                for address, size in ((held.data, held.data_size), (held.code, held.code_size)):
                    if size:  # it was refused
                        call.unmap(address, size)
                for mapping in read_maps(self.pid):  # a child may have some that its parent has no more
                    if mapping.path.startswith(f"/memfd:{held.memory_name}"):
                        call.unmap(mapping.start, mapping.end - mapping.start)
            for thread in threads.values():
                thread.attach_block(0)

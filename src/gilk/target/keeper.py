# SPDX-License-Identifier: LGPL-2.1-or-later
"""The one who holds a target: stops it, changes its code, and changes it back.

It lives in a process of its own (server.py), so that a client that dies leaves
no thread stopped and no code changed: the keeper undoes everything and goes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gilk.errors import TargetError
from gilk.target import copies as code_copies
from gilk.target.batch import Batch, Byte, Int
from gilk.target.copies import Copy, Units
from gilk.target.held import ArenaMap, Held
from gilk.target.homes import Home, homes, in_homes
from gilk.target.maps import DATA_NAME, Mapping, holders, occupied, read_maps
from gilk.target.memory import Memory
from gilk.target.movement import Busy, Movement, Place, Write
from gilk.target.places import Places
from gilk.target.remote import CLOSE, MADV_DONTDUMP, MADV_WIPEONFORK, MADVISE, Remote, remote
from gilk.target.steps import Exchanged, Steps
from gilk.target.world import Thread, World
from gilk.target.writer import Change, Mismatch, combine, differing, write

_PAGE = 4096
_SA_SIGINFO = 4
_GATES_AT, _GATES = 1024, 8 * 32  # in the control page, native/abi/gilk_abi.h; bytes
_PATIENCE = 10.0
_REMEMBERED = 4


@dataclass(frozen=True)
class Outcome:
    """How a change went, in seconds: how long it took, and how long of that the threads stood still.

    ``strangers``: bytes that were not ours any more and were left alone.
    """

    total: float
    seconds: float
    strangers: int = 0


class Keeper:
    """Holds process ``pid``. All calls come from one OS thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory = Memory(pid)
        self.world = World(pid)
        self.held = Held()
        self._batches: dict[int, Batch] = {}
        self._active: dict[int, set[int]] = {}
        self._past: list[Batch] = []
        self._everywhere: Places | None = None  # the patches of all batches, made when asked for
        self._lay: dict[int, frozenset[Home]] = {}  # by id of a batch: of the code that it changed
        self._homes: frozenset[Home] = frozenset()  # of all code that was ever changed (homes.py)
        self._movement = Movement(self.world, self.memory, lambda: self.held, self._all_patches)
        self._known_places: dict[object, Places] = {}
        self._exchanged = Exchanged()
        self.stuck = False  # a thread may still be in a patch: nothing may be unmapped

    # What is put into the target, once.

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """Create and map the shared memory; (code fd, data fd) for the client."""
        held = self.held
        with self.world.stopped() as threads:
            self._check_gs(threads)
            with _refusable(self.pid), remote(self._worker(threads), self.pid, self.memory) as call:
                held.code_name = f"gilk-code-{name}"
                held.code_fd, held.code = self._share(call, held.code_name, code_size, call.code)
                held.code_size = code_size
                held.data_fd, held.data = self._share(call, f"gilk-data-{name}", data_size, call.data)
                held.data_size = data_size
        return held.code_fd, held.data_fd

    def _share(self, call: Remote, name: str, size: int, place: Callable[[int, int], int]) -> tuple[int, int]:
        """Memory that the target has mapped, as a file descriptor of ours, and its address there."""
        fd = call.memory_file(self.memory, name)
        try:
            mine = self._open(fd, size)
            address = place(size, fd)
            with contextlib.suppress(OSError):
                call.call(MADVISE, address, size, MADV_DONTDUMP)
        finally:
            call.call(CLOSE, fd)
        return mine, address

    def _open(self, fd: int, size: int) -> int:
        mine = os.open(f"/proc/{self.pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        with _files_of_any_size():
            os.ftruncate(mine, size)
        with contextlib.suppress(OSError):  # a target that could shrink it would kill who reads it
            fcntl.fcntl(mine, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return mine

    def _check_gs(self, threads: dict[int, Thread]) -> None:
        if any(self._gs_taken(thread.registers.gs_base) for thread in threads.values()):
            raise TargetError(
                "gs-in-use",
                "the process uses the GS base itself, or another gilk session is attached to it",
                "gilk keeps per-thread state there; end the other session first",
            )

    def _gs_taken(self, base: int) -> bool:
        """It points somewhere, and not into what `gilk restore` has left behind."""
        for mapping in read_maps(self.pid) if base else ():
            if mapping.start <= base < mapping.end and mapping.path.startswith(DATA_NAME):
                return any(self.memory.read(mapping.start, 8))
        return base != 0

    @staticmethod
    def _worker(threads: dict[int, Thread]) -> Thread:
        return min(threads.values(), key=lambda thread: (thread.signal != 0, thread.restarting()))

    def map_arenas(self, arenas: list[ArenaMap], pages: dict[int, int]) -> None:
        """Map arenas, each with its key page, and single pages for puns (address -> offset)."""
        with (
            _refusable(self.pid),
            self.world.stopped() as threads,
            remote(self._worker(threads), self.pid, self.memory) as call,
        ):
            self._check_free([(a.start, a.base + a.size) for a in arenas] + [(p, p + _PAGE) for p in pages])
            for arena in arenas:
                call.anonymous(arena.start, arena.held + _PAGE)
                self.held.arenas.append(arena)
                call.call(MADVISE, arena.base - _PAGE, _PAGE, MADV_WIPEONFORK)
                call.again(self.held.code + arena.offset, arena.size, arena.base)
            for address, offset in pages.items():
                call.again(self.held.code + offset, _PAGE, address)
                self.held.pages[address] = offset

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """(handler, restorer) of those of ``signals`` whose handlers are given the interrupted state (SA_SIGINFO)."""
        if not self.present():
            return []
        with (
            _refusable(self.pid),
            self.world.stopped() as threads,
            remote(self._worker(threads), self.pid, self.memory) as call,
        ):
            found = call.handlers(self.memory, signals)
        return sorted(
            {(handler, restorer) for handler, flags, restorer in found if handler > 1 and flags & _SA_SIGINFO}
        )

    def _check_free(self, ranges: list[tuple[int, int]]) -> None:
        """Raises TargetError `no-room` when the process has mapped something there since the plan was made."""
        taken = occupied(read_maps(self.pid), growth=False)
        for start, end in ranges:
            if not taken.free(start, end):
                raise TargetError(
                    "no-room", f"process {self.pid} has mapped memory where patches were to lie", "try again"
                )

    # Changing code.

    def stage(self, number: int, batch: Batch) -> None:
        """Have a batch ready under a number of the client's choice."""
        self._batches[number] = batch
        self._everywhere = None
        self._active[number] = set()

    def change(self, remove: Units, add: Units) -> Outcome:
        """Undo some units and do others, in one stop. Raises TargetError `code-changed`, `busy`."""
        old, new = self._places(remove), self._places(add)
        steps = self._exchanged.steps(self.held.copies, self._active, remove, add)
        try:
            outcome = self._apply(self._changes(steps), old, new, not add, steps.exchange)
        except OSError:
            if not steps.exchange:
                raise
            steps = Steps(False, remove, add)  # the kernel will not have it: byte by byte, then
            outcome = self._apply(self._changes(steps), old, new, not add, False)
        self._exchanged.made(self.held.copies, steps)
        self._note_homes(add)
        for n, units in remove.items():
            self._active[n] -= units
        for n, units in add.items():
            self._active[n] |= units
        return outcome

    def _note_homes(self, added: Units) -> None:
        maps = self._maps() if any(id(self._batches[n]) not in self._lay for n in added) else ()
        for batch in (self._batches[n] for n in added) if maps else ():
            self._lay[id(batch)] = homes(maps, np.sort(batch.at))

    def expect(self, units: Units) -> None:
        """A change is coming that adds these."""
        self._places(units)

    def _places(self, units: Units) -> Places:
        """Of a change that is made again and again, they are kept."""
        key = tuple((n, frozenset(some)) for n, some in units.items())
        if key not in self._known_places:
            while len(self._known_places) >= _REMEMBERED:
                self._known_places.pop(next(iter(self._known_places)))
            self._known_places[key] = Places(self._chosen(units))
        return self._known_places[key]

    def _changes(self, steps: Steps) -> list[Change]:
        return [combine(self._chosen(steps.remove), self._chosen(steps.add))]

    def _chosen(self, units: Units) -> list[Batch]:
        return [self._batches[n].only(some) for n, some in units.items() if some]

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        """Have copies of the code ready in which these units are in force, for ``change`` to exchange it for; those
        that were made. Raises TargetError `code-changed`."""
        if self.held.copies:
            return tuple(self.held.copies)
        change, maps = combine([], self._chosen(units)), read_maps(self.pid)
        copies = code_copies.place(maps, code_copies.worth_copying(maps, change.at))
        try:
            with self.world.stopped() as threads, remote(self._worker(threads), self.pid, self.memory) as call:
                code_copies.reserve(call, copies)
            with _expecting(self.pid):
                code_copies.fill(self.memory, copies, change)
            with self.world.stopped() as threads, remote(self._worker(threads), self.pid, self.memory) as call:
                code_copies.make_executable(call, copies)
        except (OSError, TargetError) as error:
            self._unmap(copies)
            if isinstance(error, TargetError):
                raise
            return ()
        self._homes |= homes(maps, change.at)
        self.held.copies = list(copies)
        chosen = {n: self._batches[n].only(some) for n, some in units.items()}
        self._exchanged = Exchanged(code_copies.units_inside(copies, chosen))
        return tuple(copies)

    def put_back(self, copies: Sequence[Copy]) -> None:
        """Undo an exchange that somebody else has made."""
        with self.world.stopped() as threads, remote(self._worker(threads), self.pid, self.memory) as call:
            for copy in copies:
                copy.put_back(call)

    def _unmap(self, copies: list[Copy]) -> None:
        with (
            contextlib.suppress(OSError),
            self.world.stopped() as threads,
            remote(self._worker(threads), self.pid, self.memory) as call,
        ):
            for copy in copies:
                with contextlib.suppress(OSError):
                    copy.unmap(call)

    def forget(self, number: int) -> None:
        """Drop a batch of which nothing is active. A forked child may still have it, so it is known until the end."""
        assert not self._active.pop(number)
        self._past.append(self._batches.pop(number))
        self._everywhere = None

    def _apply(self, changes: list[Change], old: Places, new: Places, lenient: bool, exchange: bool) -> Outcome:
        deadline = time.monotonic() + _PATIENCE
        while True:
            late = time.monotonic() > deadline
            try:
                return self._attempt(changes, old, new, lenient, late and not new, exchange)
            except Busy:
                if late:
                    raise TargetError(
                        "busy", f"a thread of process {self.pid} stays inside an instrument", "try again later"
                    ) from None
                time.sleep(0.002)

    def _attempt(
        self, changes: list[Change], old: Places, new: Places, lenient: bool, tolerant: bool, exchange: bool
    ) -> Outcome:
        """``tolerant``: threads inside an instrument may stay; the memory they run in is then never freed."""
        asked = time.perf_counter()
        with self.world.stopped() as threads:
            began = time.perf_counter()
            places, moves = self._stand(threads, old, new, tolerant)
            if exchange:
                self._exchange(threads)
            try:
                strangers = self._write(changes, lenient)
            except TargetError:
                if exchange:
                    self._exchange(threads)
                raise
            for tid, thread in threads.items():
                self._movement.move(thread, places.get(tid), new)
            for slot, rip in moves:
                self.memory.write(slot, rip.to_bytes(8, "little"))
            for thread in threads.values() if self.held.data else ():
                if not self.held.data <= thread.registers.gs_base < self.held.data + self.held.data_size:
                    thread.attach_block(self.held.data)
        done = time.perf_counter()
        return Outcome(done - asked, done - began, strangers)

    def _exchange(self, threads: dict[int, Thread]) -> None:
        with remote(self._worker(threads), self.pid, self.memory) as call:
            self.held.copies = code_copies.exchange_all(call, self.held.copies)

    def _maps(self) -> tuple[Mapping, ...]:
        return code_copies.as_executed(read_maps(self.pid), self.held.copies)

    def _write(self, changes: list[Change], lenient: bool) -> int:
        changes = [change for change in changes if len(change.at)]
        maps = self._maps() if changes else ()
        strangers = 0
        for change in changes:
            if not lenient:
                self._homes |= homes(maps, change.at)
                with _expecting(self.pid):
                    write(self.memory, change)
            else:
                ours = change.only(in_homes(maps, change.at, self._homes))
                strangers += len(change.at) - len(ours.at) + write(self.memory, ours, lenient)
            code_copies.mirror(self.memory, self.held.copies, change)
        return strangers

    def _is_original(self, batches: list[Batch]) -> bool:
        """Whether all code that batches have changed is what it was; where other code lies by now, it is not ours."""
        maps = self._maps()
        by_home: dict[frozenset[Home], list[Batch]] = {}
        for batch in batches:
            by_home.setdefault(self._lay.get(id(batch), frozenset()), []).append(batch)
        for known, some in by_home.items():
            at, original = _first_values([(batch.at, batch.old) for batch in some])
            ours = in_homes(maps, at, known)
            if differing(self.memory, at[ours], original[ours]):
                return False
        return True

    def _stand(
        self, threads: dict[int, Thread], old: Places, new: Places, tolerant: bool
    ) -> tuple[dict[int, Place], list[Write]]:
        try:
            return self._movement.stand(threads, old, new)
        except Busy:
            if not tolerant:
                raise
            self.stuck = True
            return {}, []

    def _all_patches(self) -> Places:
        if self._everywhere is None:
            self._everywhere = Places(list(self._batches.values()))
        return self._everywhere

    # The end.

    def close(self) -> bool:
        """Restore all code here and in forked children, take out what was put in; whether every byte is what it was."""
        batches = [*self._past, *self._batches.values()]
        if not self.present():
            restored = self._undo_children(batches)
            self._let_go()
            return restored
        restored = True
        try:
            self._open_gates()
            self.change({n: set(units) for n, units in self._active.items()}, {})
            if not self._is_original(batches):  # libraries have come to lie where others were
                self._undo_last_first(batches)
            restored = self._is_original(batches)
            restored &= self._undo_children(batches)
            self._take_out()
        except TargetError as error:
            if error.slug != "no-such-process":
                raise
        self._let_go()
        return restored

    def _let_go(self) -> None:
        self._known_places = {}
        self._batches, self._active, self._past, self.held = {}, {}, [], Held()
        self._exchanged = Exchanged()

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

    def _undo_children(self, batches: list[Batch]) -> bool:
        """All of them, whatever becomes of one."""
        results = [child.undo(batches) for child in self._children()]
        return all(results)

    def _children(self) -> Iterator[Keeper]:
        """Keepers of the other processes that have our memory: forked children, and theirs."""
        if not self.held.code_name:
            return
        for pid in holders(self.held.code_name):
            if pid != self.pid:
                with contextlib.suppress(TargetError):
                    child = Keeper(pid)
                    child.held = replace(self.held, copies=self._copies_in(pid))
                    child._homes, child._lay = self._homes, self._lay
                    yield child

    def _copies_in(self, pid: int) -> list[Copy]:
        return code_copies.found(read_maps(pid), self.held.copies) if self.held.copies else []

    def undo(self, batches: list[Batch]) -> bool:
        """In a child, which may have any of the batches in force; whether its code is then what it was."""
        try:
            if any(copy.in_force for copy in self.held.copies):
                with (
                    contextlib.suppress(OSError),
                    self.world.stopped() as threads,
                ):  # else it is the copies that are written
                    self._exchange(threads)
            self._undo_last_first(batches)
            restored = self._is_original(batches)
            self._take_out()
        except TargetError as error:
            if error.slug != "no-such-process":
                raise
            return True
        return restored

    def _undo_last_first(self, batches: list[Batch]) -> None:
        """Any may be in force; of those that touch the same bytes the last one."""
        changes = [combine([batch], []) for batch in reversed(batches)]
        self._apply(changes, Places(batches), Places([]), lenient=True, exchange=False)

    def _take_out(self) -> None:
        held = self.held
        if not held.code_name or self.stuck:
            return
        with contextlib.suppress(TargetError, OSError), self.world.stopped() as threads:
            with contextlib.suppress(PermissionError), remote(self._worker(threads), self.pid, self.memory) as call:
                for copy in held.copies:
                    copy.unmap(call)
                for address in held.pages:
                    call.unmap(address, _PAGE)
                for arena in held.arenas:
                    call.unmap(arena.start, arena.size + arena.base - arena.start)
                for address, size in ((held.data, held.data_size), (held.code, held.code_size)):
                    if size:  # it was refused
                        call.unmap(address, size)
            for thread in threads.values():
                thread.attach_block(0)


@contextlib.contextmanager
def _expecting(pid: int) -> Iterator[None]:
    try:
        yield
    except Mismatch as mismatch:
        raise TargetError(
            "code-changed",
            f"the code at {mismatch.args[0]:#x} of process {pid} is not what its file says",
            "another tool has patched it, or it was loaded from a different file",
        ) from None


@contextlib.contextmanager
def _refusable(pid: int) -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        raise TargetError("no-such-process", f"process {pid} has ended") from None
    except OSError as error:
        raise TargetError(
            "refused-by-kernel",
            f"process {pid} may not map what gilk needs: {error.strerror}",
            "with CAP_SYS_ADMIN, gilk suspends seccomp filters meanwhile" if error.errno == errno.EPERM else "",
        ) from None


@contextlib.contextmanager
def _files_of_any_size() -> Iterator[None]:
    """A limit on the size of the user's files is not meant for memory, of which most is never touched."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _first_values(parts: list[tuple[Int, Byte]]) -> tuple[Int, Byte]:
    """Addresses, ascending and without repeats, with their value; it is the same wherever one repeats."""
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    at, first = np.unique(np.concatenate([a for a, _ in parts]), return_index=True)
    return at, np.concatenate([v for _, v in parts])[first]

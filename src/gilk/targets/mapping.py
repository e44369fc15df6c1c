# SPDX-License-Identifier: LGPL-2.1-or-later
"""Maps and unmaps gilk's memory in a target, by system calls that the target makes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from gilk.errors import TargetError
from gilk.targets import copies, haven
from gilk.targets.another_program import program_gone
from gilk.targets.copies import Copy
from gilk.targets.given_blocks import write_key
from gilk.targets.held import ArenaMap, Held
from gilk.targets.maps import Mapping, occupied
from gilk.targets.refusals import check_free, check_gs, expecting, refusable
from gilk.targets.shared_memory import room_for_memory, share, share_again
from gilk.targets.system_calls import MADV_WIPEONFORK, MADVISE, MPROTECT, SystemCalls
from gilk.targets.traced import Traced
from gilk.targets.writer import Change

_PAGE = 4096
CLAIM_STACKS, SIDE_STACK = 16 * 4096, 65536  # bytes: GILK_CLAIM_STACKS, GILK_SIDE_STACK of native/abi/gilk_abi.h
ADVICE_STACK = 1 << 20  # bytes: GILK_ADVICE_STACK there
_SA_SIGINFO = 4


class Mapper:
    """Maps memory in one process. ``held`` is called for the memory that gilk has there, at the time of use."""

    def __init__(self, process: Traced, held: Callable[[], Held]) -> None:
        self._process = process
        self._pid = process.pid
        self._memory = process.memory
        self._held = held

    def adopt(self) -> None:
        """Take over a forked child, which has the mappings already."""
        self._process.shelter(self._held().haven)

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[SystemCalls]:
        """A context in which all threads stand still, and one makes system calls for gilk."""
        with self._process.threads.stopped(), self._process.calls() as call:
            yield call

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """Create and map the shared memory; returns the file descriptors of code and data for the client. Raises
        TargetError, `no-such-process` if the process has executed another program since this was last called or since
        it was attached to."""
        held, share = self._held(), self._share
        with self._process.threads.stopped() as threads:
            if self._process.renew():
                raise program_gone(self._pid)  # the client may have looked at the other program
            check_gs(self._process, threads.values())
            with refusable(self._pid), self._process.calls() as call:
                held.name = name
                held.code_fd, held.code = share(call, held.code_name, code_size, call.code)
                held.code_size = code_size  # last: memory with a size and no address would be unmapped from 0 on
                held.data_fd, held.data = share(call, f"gilk-data-{name}", data_size, call.data)
                held.data_size = data_size
                held.calls = call.call_list()
                held.shelter = call.anonymous(0, haven.SIZE)
            self._process.check_alone(held.code_name)
            self._process.shelter(held.haven)
        return held.code_fd, held.data_fd

    def _share(self, call: SystemCalls, name: str, size: int, place: Callable[[int, int], int]) -> tuple[int, int]:
        return share(call, self._process.taking, name, size, place)

    def share_memory(self, size: int) -> tuple[int, int]:
        """Map more memory for the client; returns its file descriptor, and its address in the target."""
        with refusable(self._pid), self.borrowed() as call:
            at = room_for_memory(occupied(self._process.maps(), growth=False), size)
            place = functools.partial(call.data, at=at)
            return self._share(call, self._held().memory_name, size, place)

    def map_common(self, mine: int, size: int) -> int:
        """Map memory that another process has made, and that gilk has as descriptor ``mine``; returns its address in
        the target."""
        with refusable(self._pid), self.borrowed() as call:
            at = room_for_memory(occupied(self._process.maps(), growth=False), size)
            address = share_again(call, self._process.taking, mine, size, functools.partial(call.data, at=at))
            self._held().common.append((address, size))
        return address

    def unshare_memory(self, address: int, size: int) -> None:
        with refusable(self._pid), self.borrowed() as call:
            call.unmap(address, size)
            held = self._held()
            held.common = [each for each in held.common if each != (address, size)]

    def map_record(self, name: str, size: int) -> int:
        """Map private memory of the process, which a fork copies and which is found by its name; returns its
        address."""
        with refusable(self._pid), self.borrowed() as call:
            mine, address = self._share(call, name, size, call.record)
        os.close(mine)
        return address

    def map_arena(self, arena: ArenaMap) -> None:
        """Map an arena with its key page and its data. Raises MemoryTaken."""
        held = self._held()
        with refusable(self._pid), self.borrowed() as call:
            check_free(self._process, arena.start, arena.base + arena.size)
            call.anonymous(arena.start, arena.held + _PAGE)
            held.arenas.append(arena)
            call.call(MADVISE, arena.base - _PAGE, _PAGE, MADV_WIPEONFORK)
            write_key(self._pid, arena, self._memory)
            call.again(held.code + arena.offset, arena.size, arena.base)

    def map_side(self, blocks: int) -> int:
        """Map side stacks for ``blocks`` threads; returns the address where they begin (native/abi/gilk_abi.h)."""
        held, size = self._held(), CLAIM_STACKS + blocks * SIDE_STACK
        assert held.calls is not None
        with refusable(self._pid), self.borrowed() as call:
            start = call.anonymous(0, size)
            held.side = start, size
            guards = range(start + CLAIM_STACKS, start + size, SIDE_STACK)
            call.many(held.calls, [(MPROTECT, guard, _PAGE, 0) for guard in guards])
        return start

    def map_advice(self, blocks: int) -> int:
        """Map stacks of advice for ``blocks`` threads; returns the address where they begin (native/abi/gilk_abi.h)."""
        held, size = self._held(), blocks * ADVICE_STACK
        assert held.calls is not None
        with refusable(self._pid), self.borrowed() as call:
            start = call.reserve(size)
            held.advice = start, size
            guards = range(start, start + size, ADVICE_STACK)
            call.many(held.calls, [(MPROTECT, guard, _PAGE, 0) for guard in guards])
        return start

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        """Map single pages for puns (address -> offset in the code memory); returns those that cannot be mapped because
        the process has mapped something there meanwhile."""
        held = self._held()
        with refusable(self._pid), self.borrowed() as call:
            space = occupied(self._process.maps(), growth=False)
            free = [page for page in pages if space.free(page, page + _PAGE)]
            for address in free:
                call.again(held.code + pages[address], _PAGE, address)
                held.pages[address] = pages[address]
        return sorted(pages.keys() - set(free))

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """The pairs (handler, restorer) of those of ``signals`` whose handlers are given the interrupted state
        (SA_SIGINFO)."""
        with refusable(self._pid), self.borrowed() as call:
            found = call.handlers(signals)
        return sorted(
            {(handler, restorer) for handler, flags, restorer in found if handler > 1 and flags & _SA_SIGINFO}
        )

    def copy(self, change: Change, maps: tuple[Mapping, ...]) -> list[Copy]:
        """Copies of the code, where they are worth it, with the change made in them; empty where the kernel refuses
        them. Raises TargetError `code-changed`."""
        made = copies.place(maps, copies.worth_copying(maps, change.at, self._process.program()))
        try:
            with self.borrowed() as call:
                copies.reserve(call, made)
            with expecting(self._pid, self._memory):
                copies.fill(self._memory, made, change)
            with self.borrowed() as call:
                copies.make_executable(call, made)
        except (OSError, TargetError) as error:
            self._unmap_copies(made)
            if isinstance(error, TargetError):
                raise
            return []
        return made

    def _unmap_copies(self, made: Sequence[Copy]) -> None:
        with contextlib.suppress(OSError), self.borrowed() as call:
            for copy in made:
                with contextlib.suppress(OSError):
                    copy.unmap(call)

    def exchange(self, made: Sequence[Copy]) -> list[Copy]:
        """Exchange the code and its copies in a stopped process; returns the copies as they are then. Raises OSError;
        then nothing has changed."""
        calls = self._held().calls
        assert calls is not None
        with self._process.calls() as call:
            return copies.exchange_all(call, calls, made)

    def put_back(self, exchanged: Sequence[Copy]) -> None:
        """Undo an exchange that an abandoned session has made."""
        with self.borrowed() as call:
            call.leave_code_of_files()
            for copy in exchanged:
                copy.put_back(call)

    def take_out(self) -> None:
        """Unmap all of gilk's memory, as far as the process can be made to. No thread may be in it, and none has a
        block in it afterwards."""
        with contextlib.suppress(TargetError, OSError), self._process.threads.stopped() as threads:
            with contextlib.suppress(TargetError, OSError), self._process.calls() as call:
                self._unmap_all(call)
            for thread in threads.values():
                thread.attach_block(0)

    def _unmap_all(self, call: SystemCalls) -> None:
        """Unmap everything. A mapping that the kernel refuses to unmap does not keep the others from being unmapped."""
        held = self._held()
        for copy in held.copies:
            copy.unmap(call)
        _unmap(call, [(address, _PAGE) for address in held.pages])
        _unmap(call, [(arena.start, arena.size + arena.base - arena.start) for arena in held.arenas])
        call.leave_our_memory()
        _unmap(call, held.common)
        _unmap(call, [held.side, held.advice, (held.data, held.data_size), (held.code, held.code_size)])
        if held.calls is not None:
            _unmap(call, [(held.calls.loop, _PAGE), (held.calls.page, _PAGE)])
        if held.shelter:
            _unmap(call, [(held.shelter, haven.SIZE)])
        named = tuple(f"/memfd:{name}" for name in (held.memory_name, held.raised_name, held.traps_name))
        found = [each for each in self._process.maps() if each.path.startswith(named)]  # also a child's own
        _unmap(call, [(each.start, each.end - each.start) for each in found])


def _unmap(call: SystemCalls, ranges: Iterable[tuple[int, int]]) -> None:
    """Unmap those of these ranges, (address, size), that are mapped. Raises ProcessLookupError."""
    for address, size in ranges:
        try:
            if size:  # a size of 0: it was never mapped
                call.unmap(address, size)
        except ProcessLookupError:
            raise
        except OSError:  # cutting a mapping in two may take it beyond vm.max_map_count
            pass

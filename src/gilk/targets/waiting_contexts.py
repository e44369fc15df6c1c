# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the contexts of a process that wait in signal handlers: the frames from which they will return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from gilk.targets import advised
from gilk.targets.bounds import Bounds
from gilk.targets.frames import SignalFrame, find_restorers, is_original, returning, signal_frames
from gilk.targets.held import Held
from gilk.targets.places import Places
from gilk.targets.thread import Thread
from gilk.targets.traced import Traced

_SIDE_RSP = 192  # in struct gilk_block
_NOTED = 88  # in struct gilk_control


class WaitingContexts:
    """Finds signal frames in the memory of one process. ``held`` is called for the memory that gilk has in the process,
    and ``everywhere`` for the places in all patches that threads may be in, at the time of use."""

    def __init__(self, process: Traced, held: Callable[[], Held], everywhere: Callable[[], Places]) -> None:
        self._process = process
        self._memory = process.memory
        self._held = held
        self._everywhere = everywhere
        self._restorers: frozenset[int] = frozenset()
        self._hidden: frozenset[int] = frozenset()  # restorers that a jump has overwritten

    def returned_to(self, hidden: frozenset[int]) -> None:
        """Note that handlers return to these restorers, too, which jumps have overwritten."""
        self._hidden, self._restorers = hidden, self._restorers | hidden

    def of_threads(self, threads: Iterable[Thread], originals: Mapping[int, int]) -> dict[int, SignalFrame]:
        """The signal frames on the stacks of the threads, by ``slot``. ``originals``: by tid, the original
        address for a thread that stands in a patch."""
        if self._restorers <= self._hidden:
            self._restorers |= find_restorers(self._process.maps(), self._memory)
        with self._process.bounds() as bounds:
            return {frame.slot: frame for one in threads for frame in self._frames_of(one, originals, bounds)}

    def parked(self, found: dict[int, SignalFrame]) -> Iterator[SignalFrame]:
        """The signal frames on stacks without a thread; ``found`` are the others. Some may be remains of handlers that
        have returned."""
        return self._process.parked(self._restorers, found)

    def more_are_noted(self, found: dict[int, SignalFrame]) -> bool:
        """Whether the runtime has noted more contexts that have not gone on yet than ``found`` has notes."""
        return self._noted() > sum(frame.note is not None for frame in found.values())

    def returns(self, place: int) -> bool:
        """Whether a context at ``place`` returns from a handler: it is in a restorer, or in the patch of one."""
        if self._held().in_arena(place):
            place = self._everywhere().stands_for(place) or place
        return returning(place, self._restorers)

    def as_noted(self, frame: SignalFrame) -> SignalFrame:
        """The frame, without its note if that is left over from an earlier session."""
        return replace(frame, note=None) if self.is_left_over(frame) else frame

    def is_left_over(self, frame: SignalFrame) -> bool:
        """Whether the frame's note is of an earlier session, on the memory of a handler that has never returned."""
        return frame.note is not None and is_original(frame.restorer, self._memory)

    def _frames_of(self, thread: Thread, originals: Mapping[int, int], bounds: Bounds) -> Iterator[SignalFrame]:
        rip = originals.get(thread.tid, thread.registers.rip)
        if self._held().in_arena(rip):
            rip = self._everywhere().stands_for(rip) or rip
        start = thread.registers.rsp - 8 * returning(rip, self._restorers)
        return signal_frames([start, *self._left(thread)], self._restorers, bounds, self._memory)

    def _noted(self) -> int:
        """The number of contexts that the runtime has noted and that have not gone on yet; 0 if the program has made
        that unreadable."""
        data = self._held().data
        return int.from_bytes(self._memory.some(data + _NOTED, 8), "little", signed=True) if data else 0

    def _left(self, thread: Thread) -> list[int]:
        """The stack pointers on the program's stacks that the thread has left for its side stack or for a stack of
        advice."""
        base, held = thread.registers.gs_base, self._held()
        found = [advised.left(held, self._memory, base)]
        if held.side[1] and held.is_block(base):
            found.append(int.from_bytes(self._memory.read(base + _SIDE_RSP, 8), "little"))
        return [left for left in found if left]

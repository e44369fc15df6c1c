# SPDX-License-Identifier: LGPL-2.1-or-later
"""Take records out of the principal buffers, in order of time, while clauses run.

The memory is input from processes that may write anything there. What is read is copied first, then checked; a
buffer whose positions or marks cannot be right is put aside and reported, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from gilk.errors import StoreError
from gilk.trace.d.layout import GRANULE, MARK_GRANULES, MARK_LAP, MARK_TID, RECORD, Array, Mark, Policy
from gilk.trace.d.memory import Memory
from gilk.trace.threads import Gone, thread_is_gone
from gilk.values import dataclass

_FARTHEST = 1 << 62  # no position gets there


@dataclass(frozen=True, slots=True)
class Record:
    epid: int
    tsc: int
    tid: int
    cpu: int
    data: bytes
    pid: int = 0
    probe: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """Records of a buffer, from position `start` on: their offsets in the buffer, sizes and states."""

    start: int
    offsets: Array
    sizes: Array
    states: Array
    tids: Array


class Records:
    """The reading end of the principal buffers. One per object: it keeps the positions up to which they were read.

    `abandoned` counts records whose writers died before they were whole.
    """

    def __init__(self, memory: Memory, gone: Gone = thread_is_gone) -> None:
        self._memory = memory
        self._gone = gone
        self._taken = [0] * memory.layout.buffers
        self._bad: set[int] = set()
        self._pending: list[Record] = []
        self.abandoned = 0
        self.errors: list[StoreError] = []

    @property
    def full(self) -> bool:
        """With the policy `fill`: a buffer is, and the session is to end."""
        return bool(self._memory.heads["full"].any())

    def poll(self, until: int | None = None, final: bool = False) -> list[Record]:
        """Those committed since the last call, in order of time; equal times in the order of their buffers.

        `until`: leave those that are later than this for the next call: when it lies a little before the present, what
        has not been committed yet on another processor still finds its place. `final` is for when no clause
        runs any more: a record that was never committed is then passed over, and all that is left is returned. With the
        policies `fill` and `ring` records come only then.
        """
        if final or self._memory.layout.policy == Policy.SWITCH:
            for buffer in range(self._memory.layout.buffers):
                if buffer not in self._bad:
                    self._pending.extend(self._poll_buffer(buffer, final))
        elif self._memory.layout.policy == Policy.RING:
            for buffer in range(self._memory.layout.buffers):
                self._bury(buffer)
        self._pending.sort(key=attrgetter("tsc"))
        if until is None or final:
            ready, self._pending = self._pending, []
            return ready
        count = sum(1 for record in self._pending if record.tsc <= until)
        ready, self._pending = self._pending[:count], self._pending[count:]
        return ready

    def _poll_buffer(self, buffer: int, final: bool) -> list[Record]:
        try:
            walk = self._walk(buffer)
            count = len(walk.offsets) if final else self._passable(buffer, walk)
            records = list(self._copy(buffer, walk, count))
        except StoreError as error:
            self._bad.add(buffer)
            self.errors.append(error)
            return []
        self.abandoned += int((walk.states[:count] == Mark.BUSY).sum())
        end = walk.start + int(walk.sizes[:count].sum())
        self._taken[buffer] = end
        if self._memory.layout.policy == Policy.SWITCH:
            self._memory.heads["limit"][buffer] = end + self._memory.layout.buffer_size
        return records

    def _walk(self, buffer: int) -> _Walk:
        """The marks between what was read and what is reserved: those of the laps that these positions are in."""
        size = self._memory.layout.buffer_size
        start, end = self._range(buffer)
        if not 0 <= start <= end <= min(start + size, _FARTHEST) or end % GRANULE or start % GRANULE:
            raise StoreError("stream-corrupt", f"buffer {buffer} is at {end}, with {start} of {size} bytes read")
        if start == end:
            nothing = np.zeros(0, np.int64)
            return _Walk(start, nothing, nothing, nothing, nothing)
        first, count = start % size // GRANULE, (end - start) // GRANULE
        marks = self._memory.marks(buffer)
        here = np.concatenate((marks[first : first + count], marks[: max(0, first + count - len(marks))]))
        positions = start // GRANULE + np.arange(count)
        laps = (positions // len(marks) + 1) & 0xFFFFFF
        at = np.flatnonzero((here >> np.uint64(MARK_LAP)).astype(np.int64) == laps)
        made = here[at].astype(np.int64)
        granules = made >> MARK_GRANULES & 0xFFFF
        if not len(at) or at[0] or (at + granules != np.append(at[1:], count)).any() or (made & 3 == 0).any():
            raise StoreError("stream-corrupt", f"buffer {buffer}: the marks from {start} to {end} leave gaps")
        offsets = positions[at] % len(marks) * GRANULE
        return _Walk(start, offsets, granules * GRANULE, made & 3, made >> MARK_TID & 0x3FFFFF)

    def _range(self, buffer: int) -> tuple[int, int]:
        head = self._memory.heads[buffer]
        end = int(head["wpos"])
        if self._memory.layout.policy != Policy.RING:
            return self._taken[buffer], end
        oldest = int(head["limit"]) - self._memory.layout.buffer_size
        return max(oldest, self._taken[buffer]), end

    def _passable(self, buffer: int, walk: _Walk) -> int:
        """How many records there are before the first that a living thread may still be writing.

        A thread that has gone may have completed its record since the mark was read, so that is read again.
        """
        marks = self._memory.marks(buffer)
        for index in np.flatnonzero(walk.states == Mark.BUSY).tolist():
            if not self._gone(int(walk.tids[index])):
                return int(index)
            walk.states[index] = int(marks[walk.offsets[index] // GRANULE]) & 3
        return len(walk.states)

    def _copy(self, buffer: int, walk: _Walk, count: int) -> Iterator[Record]:
        data = self._memory.data(buffer)
        done = np.flatnonzero(walk.states[:count] == Mark.DONE).tolist()
        for offset, size in zip(walk.offsets[done].tolist(), walk.sizes[done].tolist(), strict=True):
            content = data[offset : offset + size].tobytes()
            if len(content) != size:
                raise StoreError("stream-corrupt", f"buffer {buffer}: a record runs past the end")
            head = np.frombuffer(content, RECORD, 1)[0]
            length = int(head["size"])
            if not size - GRANULE < length <= size:
                raise StoreError("stream-corrupt", f"buffer {buffer}: a record of {length} bytes in {size}")
            epid, tsc, tid, pid, cpu, probe = head.tolist()[1:]
            yield Record(epid, tsc, tid, cpu, content[GRANULE:length], pid, probe)

    def _bury(self, buffer: int) -> None:
        """The oldest record of a ring, if its writer has died: it would keep all others from being given up.

        No one else writes to such a mark, so a plain store does.
        """
        oldest = int(self._memory.heads["limit"][buffer]) - self._memory.layout.buffer_size
        if oldest < 0:
            return
        marks = self._memory.marks(buffer)
        at = oldest // GRANULE % len(marks)
        mark = int(marks[at])
        if (
            mark & 3 == Mark.BUSY
            and mark >> MARK_LAP == (oldest // self._memory.layout.buffer_size + 1) & 0xFFFFFF
            and self._gone(mark >> MARK_TID & 0x3FFFFF)
            and int(marks[at]) == mark  # now that it can no longer change
        ):
            marks[at] = mark | Mark.VOID
            self.abandoned += 1

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Takes records out of the principal buffers, in order of time, while clauses run.

The memory is input from processes that may write anything there. Data is copied first, then checked; a buffer whose
positions or marks are impossible is put aside and reported, and the others go on.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from operator import attrgetter

from gilk.errors import StoreError
from gilk.targets.threads import Gone, thread_is_gone
from gilk.trace.d import layout
from gilk.trace.d.layout import GRANULE, MARK_GRANULES, MARK_LAP, MARK_TID, BufferPolicy, Mark
from gilk.trace.d.memory import ProgramMemory
from gilk.values import dataclass

_FARTHEST = 1 << 62  # no position gets so far
#: Reads a layout.RecordHead at once, which is faster than member by member.
_HEAD = struct.Struct("<" + "".join("Q" if ctypes.sizeof(kind) == 8 else "I" for _, kind in layout.RecordHead._fields_))


@dataclass(frozen=True, slots=True)
class ClauseRecord:
    epid: int
    tsc: int
    tid: int
    cpu: int
    data: bytes
    pid: int = 0
    probe: int = 0


@dataclass(slots=True)
class _Marked:
    """A record of a buffer, as its mark describes it."""

    offset: int  # in the buffer
    size: int
    state: int
    tid: int


class Records:
    """Reads the principal buffers of a memory object. There must be one reader for each object: it keeps the positions
    up to which buffers were read.

    `abandoned` counts records whose writers died before they were whole.
    """

    def __init__(self, memory: ProgramMemory, gone: Gone = thread_is_gone) -> None:
        self._memory = memory
        self._gone = gone
        self._taken = [0] * memory.layout.buffers
        self._bad: set[int] = set()
        self._pending: list[ClauseRecord] = []
        self.abandoned = 0
        self.errors: list[StoreError] = []

    @property
    def full(self) -> bool:
        """Whether a buffer with the policy `fill` is full, so that the session has to end."""
        return any(head.full for head in self._memory.heads)

    def poll(self, until: int | None = None, final: bool = False) -> list[ClauseRecord]:
        """The records committed since the last call, in order of time; records of equal times in the order of their
        buffers.

        `until`: records later than this are left for the next call. If it lies a little before the present, records
        that are not yet committed on another processor still find their place. `final` is for when no clause runs any
        more: a record that was never committed is then passed over, and all that is left is returned. With the policies
        `fill` and `ring` records come only then.
        """
        self._memory.look()
        if final or self._memory.layout.policy == BufferPolicy.SWITCH:
            for buffer in range(self._memory.layout.buffers):
                if buffer not in self._bad:
                    self._pending.extend(self._poll_buffer(buffer, final))
        elif self._memory.layout.policy == BufferPolicy.RING:
            for buffer in range(self._memory.layout.buffers):
                self._bury(buffer)
        self._memory.settle()
        self._pending.sort(key=attrgetter("tsc"))
        if until is None or final:
            ready, self._pending = self._pending, []
            return ready
        count = sum(1 for record in self._pending if record.tsc <= until)
        ready, self._pending = self._pending[:count], self._pending[count:]
        return ready

    def _poll_buffer(self, buffer: int, final: bool) -> list[ClauseRecord]:
        try:
            start, end = self._range(buffer)
            self._memory.fetch(buffer, start, end)
            passed = list(self._walk(buffer, start, end))
            if not final:
                passed = passed[: self._passable(buffer, passed)]
            records = [self._copy(buffer, one) for one in passed if one.state == Mark.DONE]
        except StoreError as error:
            self._bad.add(buffer)
            self.errors.append(error)
            return []
        self.abandoned += sum(one.state == Mark.BUSY for one in passed)
        self._taken[buffer] = end = start + sum(one.size for one in passed)
        if self._memory.layout.policy == BufferPolicy.SWITCH:
            self._memory.heads[buffer].limit = end + self._memory.layout.buffer_size
        return records

    def _range(self, buffer: int) -> tuple[int, int]:
        """The position up to which a buffer was read, or in a ring the oldest one that is left, and the one up to which
        it is reserved. Raises StoreError `stream-corrupt`.
        """
        head, size = self._memory.heads[buffer], self._memory.layout.buffer_size
        start, end = self._taken[buffer], head.wpos
        if self._memory.layout.policy == BufferPolicy.RING:
            start = max(head.limit - size, start)
        if not 0 <= start <= end <= min(start + size, _FARTHEST) or end % GRANULE or start % GRANULE:
            raise StoreError("stream-corrupt", f"buffer {buffer}: position {end} cannot follow {start} in {size} bytes")
        return start, end

    def _walk(self, buffer: int, start: int, end: int) -> Iterator[_Marked]:
        """The records between two positions, as the marks of their laps describe them.

        Raises StoreError `stream-corrupt`.
        """
        marks = self._memory.marks(buffer)
        position, last = start // GRANULE, end // GRANULE
        while position < last:
            lap, at = divmod(position, len(marks))
            mark = marks[at]
            granules = mark >> MARK_GRANULES & 0xFFFF
            position += granules
            if mark >> MARK_LAP != lap + 1 & 0xFFFFFF or not granules or position > last or not mark & 3:
                raise StoreError("stream-corrupt", f"buffer {buffer}: the marks from {start} to {end} leave gaps")
            yield _Marked(at * GRANULE, granules * GRANULE, mark & 3, mark >> MARK_TID & 0x3FFFFF)

    def _passable(self, buffer: int, marked: list[_Marked]) -> int:
        """The number of records before the first that a living thread may still be writing.

        A thread that has gone may have completed its record since the mark was read, so the mark is read again.
        """
        for index, one in enumerate(marked):
            if one.state == Mark.BUSY:
                if not self._gone(one.tid):
                    return index
                one.state = self._memory.marks(buffer)[one.offset // GRANULE] & 3
        return len(marked)

    def _copy(self, buffer: int, one: _Marked) -> ClauseRecord:
        content = self._memory.data(buffer)[one.offset : one.offset + one.size].tobytes()
        if len(content) != one.size:
            raise StoreError("stream-corrupt", f"buffer {buffer}: a record runs past the end")
        length, epid, tsc, tid, pid, cpu, probe = _HEAD.unpack_from(content)
        if not one.size - GRANULE < length <= one.size:
            raise StoreError("stream-corrupt", f"buffer {buffer}: a record of {length} bytes in {one.size}")
        return ClauseRecord(epid, tsc, tid, cpu, content[GRANULE:length], pid, probe)

    def _bury(self, buffer: int) -> None:
        """Void the oldest record of a ring if its writer has died: it would keep all others from being given up.

        Nothing else writes to such a mark, so a plain store suffices.
        """
        oldest = self._memory.heads[buffer].limit - self._memory.layout.buffer_size
        if oldest < 0:
            return
        marks = self._memory.marks(buffer)
        at = oldest // GRANULE % len(marks)
        mark = marks[at]
        if (
            mark & 3 == Mark.BUSY
            and mark >> MARK_LAP == (oldest // self._memory.layout.buffer_size + 1) & 0xFFFFFF
            and self._gone(mark >> MARK_TID & 0x3FFFFF)
            and marks[at] == mark  # checked once the thread is gone and the mark cannot change any more
        ):
            marks[at] = mark | Mark.VOID
            self.abandoned += 1

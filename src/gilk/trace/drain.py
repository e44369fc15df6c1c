# SPDX-License-Identifier: LGPL-2.1-or-later
"""Takes records and counts out of the shared memory, wait-free, while the target runs.

The target can write anything to that memory, so every value read from it is checked against bounds. A ring with an
impossible position is put aside and reported, and the others go on; a number of hits or drops that is impossible, or
that went down, is not reported, and `doubts` says so. This module cannot defend itself against an object that shrinks:
its creator seals it (F_SEAL_SHRINK).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gilk.errors import StoreError
from gilk.trace.layout import CLASSES, RECORD_SIZES, RECORDS, Array, Geometry, Shared
from gilk.trace.live import which_are_set
from gilk.trace.possible import Possible
from gilk.values import dataclass

_IID = 2  # the number of the 32-bit word of a record that holds its iid


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """A thread. `birth`, the TSC at its first record or count, distinguishes it from earlier threads of the same
    number.
    """

    pid: int
    tid: int
    birth: int


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Records of one class from one thread, in the order in which it reserved them; a copy."""

    identity: Identity
    number: int  # the record class
    records: Array
    gaps: tuple[int, ...] = ()  # indices of the records before which some were dropped
    missing: tuple[int, ...] = ()  # the number of records dropped at each of these; () if it is not known


class RecordSource(Protocol):
    """A source of records and counts: the buffers of a process, or those of a kernel."""

    def poll(self, final: bool = False) -> list[Chunk]: ...
    def retire(self, live: Set[tuple[int, int]]) -> list[Chunk]: ...
    def identities(self) -> list[Identity]: ...
    def capacity(self, number: int) -> int: ...
    def counts(self) -> NDArray[np.uint64]: ...
    def drops(self) -> int: ...
    def nested(self) -> int: ...
    def skipped(self) -> int: ...
    def lost(self) -> int: ...
    def tails(self) -> dict[tuple[int, int], int]: ...
    @property
    def corrupt(self) -> int: ...
    @property
    def doubts(self) -> tuple[str, ...]: ...
    @property
    def unknown(self) -> NDArray[np.bool_] | None: ...


class Drain:
    """Reads a memory object. There must be one Drain for each object: it keeps the positions up to which rings were
    read.
    """

    def __init__(self, geometry: Geometry, buffer: Any) -> None:
        self.geometry = geometry
        self._shared = Shared(geometry, buffer)
        self._classes = [number for number, ring in enumerate(geometry.rings) if ring.size]
        self._taken = np.zeros((geometry.blocks, CLASSES), np.uint64)
        self._bad = np.zeros((geometry.blocks, CLASSES), np.bool_)
        self._known_drops = np.zeros((geometry.blocks, CLASSES), np.uint64)
        #: Positions in bytes before which records were dropped, and the number of those records; by block and ring.
        self._gaps: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._placed = np.zeros((geometry.blocks, CLASSES), np.uint64)  # the drops before records that were taken
        self._tails: Counter[tuple[int, int]] = Counter()  # the drops of threads whose blocks belong to others by now
        self._used = 0
        self._suspects: dict[int, Identity] = {}
        self._base = np.zeros(geometry.counters, np.uint64)
        self._base_drops = 0
        self._base_nested = self._base_skipped = 0
        self.errors: list[StoreError] = []
        self._possible = Possible()
        self._told = {  # the last value of each number that was possible
            "drops": np.zeros((geometry.blocks, CLASSES), np.uint64),
            "nested": np.zeros(geometry.blocks, np.uint64), "skipped": np.zeros(geometry.blocks, np.uint64),
        }  # fmt: skip
        self._lost = 0
        self._doubts: dict[str, None] = {}
        self._unknown: NDArray[np.bool_] | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """The figures that are not known, because the memory has impossible values for them; in words."""
        return tuple(self._doubts)

    @property
    def unknown(self) -> NDArray[np.bool_] | None:
        """A mask of the counters that are not known; None if all are."""
        return self._unknown

    def _believed(self, what: str, index: slice) -> NDArray[np.uint64]:
        """The counts of the threads of some blocks; in place of an impossible value, the last possible one."""
        heads = self._shared.heads[index]
        part = {"drops": "ring", "skipped": "advising"}.get(what)
        now: NDArray[np.uint64] = (heads[what] if part is None else heads[part][what]).copy()
        last = self._told[what][index]
        wrong = (now > np.uint64(self._possible.in_a_thread)) | (now < last)
        if wrong.any():
            self._doubts["how many records were dropped" if what == "drops" else "how many hits were left out"] = None
            now[wrong] = last[wrong]
        self._told[what][index] = now
        return now

    def _counted(self, row: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """A copy of the counters of a block, with 0 for those whose values are impossible, which are noted."""
        found: NDArray[np.uint64] = row.copy()
        wrong = found > np.uint64(self._possible.in_a_thread)
        if wrong.any():
            self._unknown = wrong if self._unknown is None else self._unknown | wrong
            found[wrong] = 0
        return found

    @property
    def corrupt(self) -> int:
        """The number of times that a ring was put aside because its positions were impossible."""
        return len(self.errors)

    def poll(self, final: bool = False) -> list[Chunk]:
        """The records committed since the last call, a chunk for each ring.

        `final` is for when no thread writes any more: a record that was reserved and never committed (its thread was
        killed in between) then counts as dropped, and those behind it are taken.
        """
        used = self._high_water()
        positions: NDArray[np.uint64] = self._shared.heads["ring"]["wpos"][:used].copy()
        waiting = (positions != self._taken[:used]) & ~self._bad[:used]
        chunks = []
        for index, number in np.argwhere(waiting[:, self._classes]).tolist():
            chunk = self._poll_ring(index, self._classes[number], int(positions[index, self._classes[number]]), final)
            if chunk is not None:
                chunks.append(chunk)
        return chunks

    def capacity(self, number: int) -> int:
        """The size in bytes of a ring of a record class."""
        return self.geometry.rings[number].size

    def counts(self) -> NDArray[np.uint64]:
        """Every counter, summed over all present and past threads."""
        total: NDArray[np.uint64] = self._base.copy()
        for row in self._shared.counters[: self._high_water()]:
            total += self._counted(row)
        return total

    def identities(self) -> list[Identity]:
        """The threads that have a block now."""
        return [self._identity(i) for i in self._in_use()]

    def _in_use(self) -> list[int]:
        """The blocks that threads have claimed."""
        return which_are_set(self._shared.heads["state"][: self._high_water()])

    def drops(self) -> int:
        """The number of records that found no room, or were never completed."""
        now = self._believed("drops", slice(self._high_water()))
        return self._base_drops + int(now[:, self._classes].sum(dtype=np.uint64))

    def nested(self) -> int:
        """The number of hits left out because they came from within an instrument."""
        return self._base_nested + int(self._believed("nested", slice(self._high_water())).sum(dtype=np.uint64))

    def skipped(self) -> int:
        """Calls that went without their advice because the thread's stack of advice was full."""
        return self._base_skipped + int(self._believed("skipped", slice(self._high_water())).sum(dtype=np.uint64))

    def inside(self) -> list[int]:
        """The numbers of the blocks whose threads are in an instrument that marks this (`inside`)."""
        return which_are_set(self._shared.heads["inside"][: self._high_water()])

    def lost(self) -> int:
        """The number of hits of threads that found every block taken."""
        now = int(self._shared.control["lost"])
        if self._lost <= now <= self._possible.in_all:
            self._lost = now
        else:
            self._doubts["how many hits were lost"] = None
        return self._lost

    def retire(self, live: Set[tuple[int, int]]) -> list[Chunk]:
        """Free the blocks of threads that have gone, and return their last records.

        `live` has the (pid, tid) of every thread, listed after the previous call of this method returned. A block is
        freed if two successive calls do not find its thread: a thread may have started, and claimed a block, since the
        list was made, but not since the list before it was.
        """
        gone = {i: who for i in self._in_use() if (who := self._identity(i)).tid and (who.pid, who.tid) not in live}
        dead = [i for i, who in gone.items() if self._suspects.get(i) == who]
        self._suspects = {i: who for i, who in gone.items() if i not in dead}
        chunks = [chunk for i in dead for chunk in self._free(i)]
        self._reopen()
        return chunks

    def _reopen(self) -> None:
        """Let threads look for a block again if any is free. This does not depend on what was freed just now: a thread
        that was still looking then may have found nothing, and may have said so afterwards.
        """
        control = self._shared.control
        if control["exhausted"] and not self._shared.heads["state"].all():
            control["exhausted"] = 0

    def _high_water(self) -> int:
        """The number of blocks ever claimed: one more than the highest. Higher blocks are not read, since that would
        allocate them.
        """
        claimed = min(int(self._shared.control["next"]), self.geometry.blocks)
        self._used = max(self._used, claimed)
        return self._used

    def _identity(self, index: int) -> Identity:
        head = self._shared.heads[index]
        return Identity(int(head["pid"]), int(head["tid"]), int(head["birth"]))

    def _poll_ring(self, index: int, number: int, position: int, final: bool) -> Chunk | None:
        taken = int(self._taken[index, number])
        try:
            records = self._take(index, number, position, final)
        except StoreError as error:
            self._bad[index, number] = True
            self.errors.append(error)
            return None
        if not len(records):
            return None
        gaps = self._gaps_in(index, number, taken, len(records))
        self._placed[index, number] += np.uint64(sum(missing for _, missing in gaps))
        places, missing = tuple(at for at, _ in gaps), tuple(count for _, count in gaps)
        return Chunk(self._identity(index), number, records, places, missing)

    def _take(self, index: int, number: int, position: int, final: bool) -> Array:
        """Copy the committed records of a ring, zero their iids, then give the room back: in that order. Raises
        StoreError `stream-corrupt`.

        The room is given back last, by one store, and x86 does not reorder stores, so the thread never reserves a
        record whose iid is not zero yet.
        """
        size = RECORD_SIZES[number]
        taken, room = int(self._taken[index, number]), self.geometry.rings[number].size
        if not taken < position <= taken + room or position % size:
            raise StoreError(
                "stream-corrupt", f"block {index}: ring {number}: {position} cannot follow {taken} in {room} bytes"
            )
        ring = self._shared.ring(index, number)
        first, count = taken % room // size, (position - taken) // size
        parts, passed = [], 0
        for start, end in ((first, min(first + count, len(ring))), (0, max(0, first + count - len(ring)))):
            got, walked = self._take_run(ring[start:end], final)
            parts.append(got)
            passed += walked
            if walked < end - start:
                break
        records = np.concatenate(parts).reshape(-1).view(RECORDS[number])
        self._base_drops += passed - len(records)
        self._taken[index, number] = taken + passed * size
        self._shared.heads["ring"]["limit"][index, number] = taken + passed * size + room
        self._note_gap(index, number, taken + room)
        return records

    def _note_gap(self, index: int, number: int, limit: int) -> None:
        """Note the drops since the last look: they found the ring full, so the records are missing at `limit`, where
        the room ended.
        """
        drops = self._believed("drops", slice(index, index + 1))[0, number]
        if drops != self._known_drops[index, number]:
            missing = int(drops - self._known_drops[index, number])
            self._known_drops[index, number] = drops
            self._gaps.setdefault((index, number), []).append((limit, missing))

    def _gaps_in(self, index: int, number: int, start: int, count: int) -> list[tuple[int, int]]:
        """The gaps before each of the `count` records that begin at position `start`, as (index of the record, number
        of records missing there).
        """
        known = self._gaps.get((index, number))
        if not known:
            return []
        places = [((position - start) // RECORD_SIZES[number], missing) for position, missing in known]
        self._gaps[index, number] = [gap for gap, (at, _) in zip(known, places, strict=True) if at >= count]
        return [(at, missing) for at, missing in places if 0 <= at < count]

    def tails(self) -> dict[tuple[int, int], int]:
        """The number of records that were dropped behind the last one taken of each thread, by (pid, tid)."""
        found = self._tails.copy()
        for index in self._in_use():
            found.update(self._tail(index))
        return {thread: count for thread, count in found.items() if count}

    def _tail(self, index: int) -> dict[tuple[int, int], int]:
        drops = self._believed("drops", slice(index, index + 1))[0] - self._placed[index]
        who = self._identity(index)
        return {(who.pid, who.tid): int(drops[self._classes].sum(dtype=np.uint64))}

    @staticmethod
    def _take_run(run: Array, final: bool) -> tuple[Array, int]:
        """The committed records at the head of `run`, and the number of records passed over to get them (all if
        `final`).
        """
        iids = run.view(np.uint32)[:, _IID]
        committed = iids != 0
        if final:
            got = run[committed]
            run[:] = 0
            return got, len(run)
        count = len(run) if committed.all() else int(committed.argmin())
        got = run[:count].copy()
        iids[:count] = 0
        return got, count

    def _free(self, index: int) -> list[Chunk]:
        head = self._shared.heads[index : index + 1]
        positions = head["ring"]["wpos"][0].tolist()
        waiting = [n for n in self._classes if positions[n] != self._taken[index, n] and not self._bad[index, n]]
        taken = [self._poll_ring(index, number, positions[number], final=True) for number in waiting]
        self._fold(index)
        for number in np.flatnonzero(self._bad[index]).tolist():
            self._repair(index, number)
        for name in (
            "pid",
            "tid",
            "birth",
            "busy",
            "inside",
            "holder",
            "owner",
            "state",
        ):  # state last: it hands the block over
            head[name] = 0
        return [chunk for chunk in taken if chunk is not None]

    def _fold(self, index: int) -> None:
        """Add the counts of a block to the totals, and zero them for the next thread."""
        head, here = self._shared.heads[index : index + 1], slice(index, index + 1)
        self._base += self._counted(self._shared.counters[index])
        self._tails.update(self._tail(index))
        self._placed[index] = 0
        self._base_drops += int(self._believed("drops", here)[:, self._classes].sum(dtype=np.uint64))
        self._base_nested += int(self._believed("nested", here).sum(dtype=np.uint64))
        self._base_skipped += int(self._believed("skipped", here).sum(dtype=np.uint64))
        for told in self._told.values():
            told[index] = 0
        self._shared.counters[index] = 0
        self._known_drops[index] = 0
        for number in range(CLASSES):
            self._gaps.pop((index, number), None)
        head["ring"]["drops"] = 0
        head["nested"] = 0
        head["advising"]["skipped"] = 0

    def _repair(self, index: int, number: int) -> None:
        """Make a ring that was put aside empty and usable again; its thread is gone."""
        self._shared.ring(index, number)[:] = 0
        self._shared.heads["ring"]["wpos"][index, number] = 0
        self._shared.heads["ring"]["limit"][index, number] = self.geometry.rings[number].size
        self._taken[index, number] = 0
        self._bad[index, number] = False

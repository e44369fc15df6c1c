# SPDX-License-Identifier: LGPL-2.1-or-later
"""Looks up where threads stand, before and after code changes: original addresses and their equals in patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gilk.arch.asm import JMP32
from gilk.targets.batch import Batch, Int
from gilk.targets.memory import Memory

_AFTER, _APART = np.int64(-1 << 63), np.int64(1)  # GILK_ROW_AFTER, GILK_ROW_APART, native/abi/gilk_abi.h
HEAD, ROW = 24, 16  # bytes of struct gilk_places, and of struct gilk_row


class Places:
    """The equivalences and patches of some batches, for looking up single addresses."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = [b for b in batches if len(b.names)]
        order = [np.argsort(b.low, kind="stable") for b in self._batches]
        self._low = [b.low[o] for b, o in zip(self._batches, order, strict=True)]
        self._high = [b.high[o] for b, o in zip(self._batches, order, strict=True)]
        self.displaced: Int = np.sort(np.concatenate([np.empty(0, np.int64), *(b.displaced for b in self._batches)]))

    def __bool__(self) -> bool:
        return bool(self._batches)

    def original(self, patch: int) -> tuple[int, bool] | None:
        """The original address that the place ``patch`` stands for, and whether its instruments have yet to run; None
        if it has no equal."""
        for b in self._batches:
            for row in np.flatnonzero(b.patch == patch):
                return int(b.original[row]), bool(b.before[row])
        return None

    def patch(self, original: int, before: bool) -> int | None:
        for b in self._batches:
            for row in np.flatnonzero((b.original == original) & (b.before == before)):
                return int(b.patch[row])
        return None

    def in_patch(self, address: int) -> bool:
        for low, high in zip(self._low, self._high, strict=True):
            i = int(np.searchsorted(low, address, side="right")) - 1
            if i >= 0 and address < high[i]:
                return True
        return False

    def stands_for(self, address: int) -> int | None:
        """The original address of the instruction that is executed at ``address`` in a patch, or that comes next there;
        None outside patches."""
        found = self._last_row(address)
        return None if found is None else int(found[0].original[found[1]])

    def begun(self, address: int) -> int | None:
        """The last place with an equal that is not behind ``address``, in the patch that holds it; None outside
        patches."""
        found = self._last_row(address)
        return None if found is None else int(found[0].patch[found[1]])

    def begins(self, behind: int) -> int | None:
        """The place in a patch where the instruments begin that end at the place ``behind``; None if there are none."""
        found = self._last_row(behind)
        if found is None:
            return None
        b, row = found
        same = np.flatnonzero((b.original == b.original[row]) & (b.patch_unit == b.patch_unit[row]))
        low = b.low[(b.low <= behind) & (behind < b.high)].max()
        starts = b.patch[same][(b.patch[same] >= low) & (b.patch[same] < b.patch[row])]
        return int(starts.max()) if len(starts) and b.patch[row] == behind else None

    def _last_row(self, address: int) -> tuple[Batch, int] | None:
        """The equivalence, as a batch and its row, of the last place in a patch that is not behind ``address``."""
        for b, low, high in zip(self._batches, self._low, self._high, strict=True):
            i = int(np.searchsorted(low, address, side="right")) - 1
            if i >= 0 and address < high[i]:
                rows = np.flatnonzero((b.patch >= low[i]) & (b.patch <= address))
                return (b, int(rows[np.argmax(b.patch[rows])])) if len(rows) else None
        return None

    def comes_back_amid(self, address: int, new: Places, memory: Memory) -> bool:
        """Whether a thread at ``address`` in a patch may return into the middle of the code that patches of ``new``
        displace.

        A patch leads to other patches of its function. Each ends with a jump to the code, unless it ends with a jump or
        a call of the program's own, which never leads into the middle of a splice.
        """
        for b in self._batches:
            for unit in b.low_unit[(b.low <= address) & (address < b.high)]:
                rows = np.flatnonzero((b.patch_unit == unit) & b.before & np.isin(b.original, new.displaced))
                if any(long_jump(int(b.patch[row]), memory) == b.original[row] for row in rows):
                    return True
        return False

    def leads_away(self, original: int) -> bool:
        """Whether a patch is executed in place of the instruction at ``original``."""
        return self.patch(original, before=True) is not None

    def leads_back(self, restorer: int) -> bool:
        """Whether handlers that return to this restorer are led to the equal in a patch of the address that they return
        to."""
        return any(bool((b.restorers == restorer).any()) for b in self._batches)

    def stays(self, original: int) -> bool:
        """Whether a patch is executed in place of the instruction at ``original`` after the change to which these
        places belong."""
        return self.leads_away(original)

    def is_displaced(self, address: int) -> bool:
        i = int(np.searchsorted(self.displaced, address))
        return i < len(self.displaced) and int(self.displaced[i]) == address


class ShownPlaces(Places):
    """The places in patches that a table shows to the runtime (places_table()). The table lies in memory of a target,
    which may have written anything there."""

    def __init__(self, memory: Memory, table: int, most: int) -> None:
        """Read the table at the address ``table``, at most ``most`` bytes; if it cannot be one, it has no places."""
        super().__init__([])
        count = int.from_bytes(memory.some(table, 8), "little")
        size = ROW * count if count <= (most - HEAD) // ROW else 0
        content = memory.some(table + HEAD, size)
        rows = np.frombuffer(content, np.int64) if len(content) == size else np.empty(0, np.int64)
        self._from, self._to = rows.reshape(-1, 2).T

    def original(self, patch: int) -> tuple[int, bool] | None:
        row = self._row(patch)
        if row is None or self._from[row] != patch or self._to[row] == _APART:
            return None
        to = self._to[row]
        return int(to & ~_AFTER), bool(to >= 0)

    def in_patch(self, address: int) -> bool:
        return self._row(address) is not None

    def begun(self, address: int) -> int | None:
        row = self._row(address)
        return None if row is None else int(self._from[row])

    def _row(self, address: int) -> int | None:
        """The row of the last place in a patch that is not behind ``address``; None outside patches."""
        row = int(np.searchsorted(self._from, address, side="right")) - 1
        return row if row >= 0 and self._to[row] else None


class StandingJumps(Places):
    """The jumps to gilk's memory, ``ranges``, that are found in code although nobody knows their plans any more.
    Displaced instructions go on where their jump leads, until the jumps are taken out."""

    def __init__(self, memory: Memory, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__([])
        self._memory = memory
        self._ranges = ranges

    def is_displaced(self, address: int) -> bool:
        return self.patch(address, before=True) is not None

    def leads_away(self, original: int) -> bool:
        """Always true: nobody knows which instructions have a jump in their place."""
        return True

    def stays(self, original: int) -> bool:
        return False

    def patch(self, original: int, before: bool) -> int | None:
        target = long_jump(original, self._memory)
        return target if target is not None and any(low <= target < high for low, high in self._ranges) else None


def long_jump(address: int, memory: Memory) -> int | None:
    """The target of the long jump that stands in code at this address; None if another instruction does."""
    jump = memory.some(address, len(JMP32) + 4)
    if len(jump) < len(JMP32) + 4 or not jump.startswith(JMP32):
        return None
    return address + len(jump) + int.from_bytes(jump[len(JMP32) :], "little", signed=True)


#: Where the version of a table lies in struct gilk_places, eight bytes. It is 0 while the table is written.
VERSION: Final = slice(16, 24)


def places_table(batches: list[Batch], in_force: list[Batch]) -> bytes:
    """struct gilk_places (native/abi/gilk_abi.h), with version 0: the originals of all places in patches, and the
    places in patches of the instructions that are displaced by the batches ``in_force``."""
    starts = [(b.patch, np.where(b.before, b.original, b.original | _AFTER)) for b in batches]
    apart = [b.low[~np.isin(b.low, b.patch)] for b in batches]
    ends = [np.concatenate((b.high, _alone(b) + 1)) for b in batches]
    patches = _rows(
        [(end, np.zeros_like(end)) for end in ends] + [(low, np.full_like(low, _APART)) for low in apart] + starts
    )
    moved = []
    for b in in_force:
        rows = np.isin(b.original, b.displaced) & b.before
        moved.append((b.original[rows], b.patch[rows]))
    displaced = _rows(moved)
    header = np.array((len(patches), len(displaced), 0), np.uint64)
    return header.tobytes() + patches.tobytes() + displaced.tobytes()


def _alone(batch: Batch) -> Int:
    """The places outside patches: the long jumps of bounces, of which a thread can stand only on the first byte."""
    order = np.argsort(batch.low)
    low, high = batch.low[order], batch.high[order]
    at = np.searchsorted(low, batch.patch, side="right") - 1
    inside = (at >= 0) & (batch.patch < high[at]) if len(low) else np.zeros(len(batch.patch), np.bool_)
    return batch.patch[~inside]


def _rows(parts: list[tuple[Int, Int]]) -> Int:
    """Rows (from, to), ascending, one for each ``from``. A row that leads somewhere takes precedence over one that
    leads to 0, a place before its instruments over one after them, and a newer row over an older one."""
    if not parts:
        return np.empty((0, 2), np.int64)
    at, to = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.lexsort((np.arange(len(at)), to >= 0, to != 0, at))
    at, to = at[order], to[order]
    last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, np.bool_)
    return np.stack((at[last], to[last]), axis=1)

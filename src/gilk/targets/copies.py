# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code with thousands of splices, prepared as a copy of the whole mapping, and exchanged for it at once.

Writing a splice over a page of a file costs a copy of the page, while every thread stands still. Here the pages are
copied while the program runs. Then the mapping that the program executes is moved aside (mremap(2), which moves page
tables), and the copy takes its place; the other way round to undo it, and the mapping that comes back is the very one
that was there. The program can notice it in /proc/PID/maps only.

There are three places: ``start``, where the program executes; ``spare``, where the copy lies while it is not executed;
``shelf``, where the original lies while the copy is executed. Whichever of the last two is empty is kept reserved.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gilk.targets.batch import Batch, Byte, Int
from gilk.targets.call_list import Call, CallList
from gilk.targets.maps import Mapping, occupied
from gilk.targets.memory import Memory
from gilk.targets.system_calls import MMAP, MREMAP, MUNMAP, SystemCalls
from gilk.targets.writer import Change, Mismatch, overwrite
from gilk.values import dataclass

_MPROTECT = 10
_PRIVATE, _ANONYMOUS, _NORESERVE, _NOREPLACE = 2, 0x20, 0x4000, 0x100000
_NONE, _WRITABLE, _CODE = 0, 3, 5
_MOVE = 3  # MREMAP_MAYMOVE | MREMAP_FIXED
_TABLE = 2 << 20  # span of one page-table page: tables are moved whole between places with equal offsets in it
_PAGE = 4096
_CALLS = 3  # system calls that exchange one copy
_WORTH = 32  # number of changed pages in a mapping from which on a copy pays
_LARGEST = 512 << 20

Units = dict[int, set[int]]


@dataclass(frozen=True)
class Copy:
    """The copy of one executable mapping; ``in_force``: whether the program executes the copy rather than the
    original."""

    start: int
    size: int
    spare: int
    shelf: int
    in_force: bool = False

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def hidden(self) -> int:
        """The address of the version, copy or original, that the program does not execute."""
        return self.shelf if self.in_force else self.spare

    def exchange_calls(self) -> tuple[Call, Call, Call]:
        """The three system calls that exchange the versions: move the executed one away, move the other one in, and
        reserve the place that is empty then."""
        there, back = (self.shelf, self.spare) if not self.in_force else (self.spare, self.shelf)
        return (
            (MREMAP, self.start, self.size, self.size, _MOVE, there),
            (MREMAP, back, self.size, self.size, _MOVE, self.start),
            _reserving(back, self.size),
        )

    def put_back(self, call: SystemCalls) -> None:
        """Move the original back to where the program executes; the copy is gone then. Raises OSError; then nothing has
        changed."""
        call.call(MREMAP, self.shelf, self.size, self.size, _MOVE, self.start)

    def unmap(self, call: SystemCalls) -> None:
        """Unmap the copy, which must not be in force, and its reserved place."""
        call.call(MUNMAP, self.spare, self.size)
        call.call(MUNMAP, self.shelf, self.size)


def worth_copying(maps: Sequence[Mapping], at: np.ndarray, program: str) -> list[Mapping]:
    """The mappings of files in which so many pages would change (``at``: addresses, ascending) that a copy pays.

    If there is one, also the mapping of ``program``, the file that the process executes, however few of its pages
    change: then nothing may be left to be written while threads stand still. Small libraries are not copied: one may be
    closed before the exchange, and then no mapping would be exchanged.
    """
    pages = np.unique(at // _PAGE) * _PAGE
    changed: dict[Mapping, int] = {}
    for mapping in maps:
        low, high = np.searchsorted(pages, (mapping.start, min(mapping.end, 1 << 62)))
        private = mapping.permissions == "r-xp" and mapping.inode and not mapping.ours
        if private and high > low and mapping.end - mapping.start <= _LARGEST:
            changed[mapping] = int(high - low)
    if max(changed.values(), default=0) < _WORTH:
        return []
    return [mapping for mapping, count in changed.items() if count >= _WORTH or mapping.path == program]


def place(maps: tuple[Mapping, ...], mappings: Sequence[Mapping]) -> list[Copy]:
    """Room for copies, in the middle of the largest gap of the address space, far from mappings that grow; empty if
    there is no room."""
    ranges = occupied(maps).ranges
    gaps = [(b[0] - a[1], a[1]) for a, b in itertools.pairwise(ranges) if b[0] < 1 << 47]
    width, low = max(gaps)
    if width < 8 * sum(m.end - m.start + 2 * _TABLE for m in mappings):
        return []
    at = low + width // 2 & -_TABLE
    copies = []
    for mapping in mappings:
        size, within = mapping.end - mapping.start, mapping.start % _TABLE
        room = (within + size + 2 * _TABLE - 1) & -_TABLE  # kept apart: else two mappings might merge
        copies.append(Copy(mapping.start, size, at + within, at + room + within))
        at += 2 * room
    return copies


def reserve(call: SystemCalls, copies: Sequence[Copy]) -> None:
    """Map the places of the copies. Raises OSError; some may be mapped then."""
    for copy in copies:
        call.call(MMAP, copy.spare, copy.size, _WRITABLE, _PRIVATE | _ANONYMOUS | _NOREPLACE, -1, 0)
        call.call(*_reserving(copy.shelf, copy.size))


def fill(memory: Memory, copies: Sequence[Copy], change: Change) -> None:
    """Fill the copies with the code as the change makes it. Raises Mismatch where the code is not as the change
    expects."""
    for copy in copies:
        low, high = np.searchsorted(change.at, (copy.start, copy.end))
        content = np.frombuffer(bytearray(memory.read(copy.start, copy.size)), np.uint8)
        at = change.at[low:high] - copy.start
        same = content[at] == change.old[low:high]
        if not same.all():
            raise Mismatch(int(change.at[low:high][~same][0]))
        content[at] = change.new[low:high]
        memory.write(copy.spare, content.tobytes())


def make_executable(call: SystemCalls, copies: Sequence[Copy]) -> None:
    """Change the copies from writable to executable; they are never both."""
    for copy in copies:
        call.call(_MPROTECT, copy.spare, copy.size, _CODE)


@dataclass(frozen=True)
class OnlyCopied:
    """The bytes that differ between the copies and the originals: ascending addresses, with both values."""

    at: Int
    original: Byte
    copied: Byte

    def in_the_other(self, at: Int, here: Byte, copied: bool) -> Byte:
        """The values that the other version of the code has at the addresses ``at``, where the executed version has
        ``here``. ``copied``: the other version is the copy."""
        if not len(self.at):
            return here
        row = np.minimum(np.searchsorted(self.at, at), len(self.at) - 1)
        return np.where(self.at[row] == at, (self.copied if copied else self.original)[row], here)


ONLY_COPIED_NOTHING = OnlyCopied(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint8))


def mirror(memory: Memory, copies: Sequence[Copy], at: Int, executed: Byte, apart: OnlyCopied) -> None:
    """Write the bytes that are executed at these ascending addresses into the version of the code that is not executed,
    except where copies and originals differ (``apart``). Memory that is not mapped any more is left out."""
    for copy in copies:
        low, high = np.searchsorted(at, (copy.start, copy.end))
        values = apart.in_the_other(at[low:high], executed[low:high], not copy.in_force)
        with contextlib.suppress(OSError):
            overwrite(memory, at[low:high] - copy.start + copy.hidden, values)


def units_inside(copies: Sequence[Copy], batches: dict[int, Batch]) -> Units:
    """The units all of whose bytes lie in the copies, by the number of their batch."""
    inside: Units = {}
    for number, batch in batches.items():
        held = np.zeros(len(batch.at), np.bool_)
        for copy in copies:
            held |= (batch.at >= copy.start) & (batch.at < copy.end)
        outside = set(np.unique(batch.at_unit[~held]).tolist())
        inside[number] = set(np.unique(batch.at_unit[held]).tolist()) - outside
    return inside


def exchange_all(call: SystemCalls, place: CallList, copies: Sequence[Copy]) -> list[Copy]:
    """Exchange all copies, or none; returns them as they are then. Every thread must be stopped. Raises OSError; then
    nothing has changed."""
    calls = [one for copy in copies for one in copy.exchange_calls()]
    results = call.many(place, calls)
    if not results or results[-1] >= 0:
        return [_exchanged(copy) for copy in copies]
    _undo(call, copies, len(results) - 1)
    raise OSError(-results[-1], os.strerror(-results[-1]))


def _exchanged(copy: Copy) -> Copy:
    return replace(copy, in_force=not copy.in_force)


def _undo(call: SystemCalls, copies: Sequence[Copy], made: int) -> None:
    """Undo the first ``made`` system calls of an exchange."""
    whole, part = divmod(made, _CALLS)
    if part == 1:
        away, _, _ = copies[whole].exchange_calls()
        call.call(MREMAP, away[5], copies[whole].size, copies[whole].size, _MOVE, copies[whole].start)
        call.call(*_reserving(away[5], copies[whole].size))
    for copy in copies[: whole + (part == 2)]:
        for one in _exchanged(copy).exchange_calls():
            call.call(*one)


def found(maps: Sequence[Mapping], copies: Sequence[Copy]) -> list[Copy]:
    """The copies as they are in another process that has them: a forked child has them as its parent had at the
    fork."""
    shelved = {mapping.start for mapping in maps if mapping.inode}
    known = {mapping.start for mapping in maps}
    return [replace(c, in_force=c.shelf in shelved) for c in copies if c.shelf in known]


def as_executed(maps: tuple[Mapping, ...], copies: Sequence[Copy]) -> tuple[Mapping, ...]:
    """The mappings as they would be without copies: the original, a file's mapping, is shown where the program
    executes."""
    return tuple(_as_executed(maps, copies)) if copies else maps


def _as_executed(maps: tuple[Mapping, ...], copies: Sequence[Copy]) -> Iterator[Mapping]:
    shelved = {m.start: m for m in maps if m.inode}
    originals = {c.start: shelved[c.shelf] for c in copies if c.shelf in shelved}
    places = {at: copy for copy in copies for at in (copy.shelf, copy.spare, copy.start)}
    for mapping in maps:
        copy = places.get(mapping.start)
        if copy is None:
            yield mapping
        elif mapping.start == copy.start:
            original = originals.get(copy.start)
            yield mapping if original is None else replace(original, start=copy.start, end=copy.end)


def _reserving(address: int, size: int) -> Call:
    return MMAP, address, size, _NONE, _PRIVATE | _ANONYMOUS | _NORESERVE | _NOREPLACE, -1, 0

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Unwind tables: for every instruction of an image, how to find the frame of the caller.

They are made of .eh_frame, once for an image, and kept in the cache by the image's content.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gilk.cache.arrays import load_arrays, store_arrays
from gilk.image import cfi, eh_frame
from gilk.image.cfi import NOTHING, SIGNAL, Common, FrameRule, How
from gilk.image.encoding import EncodedTable, sleb, uleb
from gilk.image.memory import MALFORMED, ImageMemory
from gilk.image.model import Image
from gilk.values import dataclass

_VERSION = 3  # of the stored format
_STUB = 16  # in bytes
_PADDING = 15  # the most bytes between functions that count as padding, which is never executed
#: The code to which a signal handler returns: C libraries' calls of rt_sigreturn. It is recognised by its bytes if
#: there is no FDE for it.
_RESTORERS = (b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\x0f\x00\x00\x00\x0f\x05")


@dataclass(frozen=True)
class Unwind:
    """The table: ``rules[ids[i]]`` holds from the link-time address ``base + starts[i]`` on, up to the next row's."""

    base: int
    starts: NDArray[np.uint32]
    ids: NDArray[np.uint16]
    rules: tuple[FrameRule, ...]

    def rule(self, address: int) -> FrameRule | None:
        """The rule at a link-time address; None if there is none."""
        row = int(np.searchsorted(self.starts, address - self.base, side="right")) - 1
        number = int(self.ids[row]) if 0 <= row < len(self.ids) and address >= self.base else len(self.rules)
        return self.rules[number] if number < len(self.rules) else None


def unwind(image: Image) -> Unwind:
    """The unwind table of an image; it has no rows if there is no .eh_frame, or if that cannot be read."""
    key = f"unwind-{_VERSION}-{image.content.hex()}"
    kept = load_arrays(key)
    if kept is not None and {"base", "starts", "ids", "rules"} <= kept.keys():
        rules = tuple(FrameRule(How(row[0]), *row[1:]) for row in kept["rules"].tolist())
        return Unwind(int(kept["base"][0]), kept["starts"], kept["ids"], rules)
    made = made_of(image)
    base, table = np.array([made.base]), np.array(made.rules)
    store_arrays(key, {"base": base, "starts": made.starts, "ids": made.ids, "rules": table})
    return made


def made_of(image: Image) -> Unwind:
    """The unwind table made from the image as it was read, without the cache; the file may have changed since."""
    memory = ImageMemory(image.segments)
    found = list(_Functions(image.unwinding, memory).rows())
    found += _restorers(memory)
    return _table(_flat(found))


@dataclass(frozen=True, slots=True)
class _Extent:
    """The rows of [start, end), by distance in bytes from the start."""

    start: int
    end: int
    rows: tuple[tuple[int, FrameRule], ...]


def _restorers(memory: ImageMemory) -> Iterator[_Extent]:
    """The extents of signal restorers, each from a byte before its start on: they are return addresses, which are
    looked up by the byte before.
    """
    for segment in memory.segments:
        for code in _RESTORERS if segment.executable else ():
            at = segment.data.find(code)
            while at >= 0:
                start = segment.address + at
                yield _Extent(start - 1, start + len(code), ((0, SIGNAL),))
                at = segment.data.find(code, at + 1)


def _flat(found: list[_Extent]) -> list[tuple[int, FrameRule]]:
    """The rows by address, with NOTHING between functions. If extents overlap, the later one counts."""
    rows: list[tuple[int, FrameRule]] = []
    reached = 0
    for extent in sorted(found, key=lambda one: (one.start, one.end)):
        if extent.start > reached + _PADDING and rows:
            rows.append((reached, NOTHING))
        after = rows[-1][1] if rows and extent.end < reached else None  # it lies within another extent
        size = extent.end - extent.start
        rows += [(extent.start + distance, rule) for distance, rule in extent.rows if distance < size]
        if after is not None:
            rows.append((extent.end, after))
        reached = max(reached, extent.end)
    return [*rows, (reached, NOTHING)] if rows else []


def _table(rows: list[tuple[int, FrameRule]]) -> Unwind:
    rules: dict[FrameRule, int] = {NOTHING: 0}
    starts, ids, last = list[int](), list[int](), -1
    base = rows[0][0] if rows else 0
    for address, rule in sorted(rows, key=lambda row: row[0]):
        number = rules.setdefault(rule, len(rules)) if len(rules) < 1 << 15 else rules.get(rule, 0)
        if number != last and address - base < 1 << 32:
            starts.append(address - base)
            ids.append(number)
            last = number
    return Unwind(base, np.array(starts, np.uint32), np.array(ids, np.uint16), tuple(rules))


class _Functions:
    """The FDEs of an image. A broken FDE is skipped."""

    def __init__(self, place: tuple[int, int], memory: ImageMemory) -> None:
        self._memory = memory
        try:
            self._table = eh_frame.table_at(place, memory)
        except MALFORMED:
            self._table = None
        self._commons: dict[int, tuple[eh_frame.Cie, Common] | None] = {}
        self._known: dict[tuple[int, bytes], tuple[tuple[int, FrameRule], ...]] = {}

    def rows(self) -> Iterator[_Extent]:
        if self._table is None:
            return
        for body, end in eh_frame.entries(self._table):
            try:
                yield from self._function(self._table, body, end)
            except MALFORMED:
                continue

    def _function(self, table: EncodedTable, body: int, end: int) -> Iterator[_Extent]:
        back = int.from_bytes(table.data[body : body + 4], "little")
        known = self._common(table, body - back) if back else None
        if known is None:
            return
        cie, common = known
        start, size, cursor = eh_frame.extent(table, cie, body + 4)
        if not size or cursor > end or not self._memory.executable(start):
            return
        if cie.sized:
            length, cursor = uleb(table.data, cursor)
            cursor += length
        if cie.signal:
            yield _Extent(start, start + size, ((0, SIGNAL),))
            return
        program = table.data[cursor:end].rstrip(b"\0")
        stub = cfi.stub_threshold(program)
        rows = self._rows(body - back, common, program) if stub is None else _stubs(start, size, common, program, stub)
        yield _Extent(start, start + size, rows)

    def _rows(self, which: int, common: Common, program: bytes) -> tuple[tuple[int, FrameRule], ...]:
        """The rows of a function's program, remembered because many functions have the same program."""
        known = self._known.get((which, program))
        if known is None:
            known = self._known[which, program] = tuple(cfi.rows(common, program + b"\0\0\0\0"))
        return known

    def _common(self, table: EncodedTable, offset: int) -> tuple[eh_frame.Cie, Common] | None:
        if offset not in self._commons:
            try:
                cie = eh_frame.parse_cie(table, offset)
                self._commons[offset] = None if cie is None else (cie, _common(table, offset))
            except MALFORMED:
                self._commons[offset] = None
        return self._commons[offset]


def _stubs(start: int, size: int, common: Common, program: bytes, threshold: int) -> tuple[tuple[int, FrameRule], ...]:
    """The rows of a PLT: those of its head by the program, then two rows for each stub."""
    before = cfi.rows(common, program[: program.find(b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a")])
    first, _ = before[-1]
    plain, pushed = (FrameRule(How.PLAIN, 4, offset, 0, -8) for offset in (8, 16))
    rows = [row for row in before if row[0] < first]
    for stub in range((start + first) & -_STUB, start + size, _STUB):
        rows += [(stub - start, plain), (stub + threshold - start, pushed)]
    return tuple(row for row in rows if 0 <= row[0] < size)


def _common(table: EncodedTable, offset: int) -> Common:
    data = table.data
    length = int.from_bytes(data[offset : offset + 4], "little")
    body = offset + 4
    if length == 0xFFFFFFFF:
        length, body = int.from_bytes(data[body : body + 8], "little"), body + 8
    end = body + length
    version, augmentation = data[body + 4], data[body + 5 : body + 37].partition(b"\0")[0]
    cursor = body + 5 + len(augmentation) + 1
    cursor += 8 if augmentation == b"eh" else 2 if version == 4 else 0
    code, cursor = uleb(data, cursor)
    factor, cursor = sleb(data, cursor)
    register, cursor = (data[cursor], cursor + 1) if version == 1 else uleb(data, cursor)
    if augmentation.startswith(b"z"):
        size, cursor = uleb(data, cursor)
        cursor += size
    return Common(code, factor, data[cursor:end], register)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes unwind tables into the memory of a D program. native/abi/gilk_unwind.h is the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gilk.image.cfi import FrameRule
from gilk.image.unwind import Unwind
from gilk.trace.d.layout import pages
from gilk.values import dataclass

PAGE_BITS = 8
RULES = 65535
CACHE = 1 << 13
HEAD = np.dtype([("map", "<u8"), ("rules", "<u8"), ("cache", "<u8"), ("missed", "<u4"), ("reserved", "<u4")])
RULE = np.dtype(
    [
        *(("how", "u1"), ("base", "u1"), ("reserved", "u1", (2,)), ("offset", "<i4"), ("more", "<i4"), ("pc", "<i4")),
        *(("bp", "<i4"), ("bx", "<i4")),
    ]
)
MODULE = np.dtype(
    [
        *(("start", "<u8"), ("end", "<u8"), ("base", "<u8"), ("pages", "<u8"), ("from", "<u8"), ("rule", "<u8")),
        *(("page_count", "<u4"), ("rows", "<u4")),
    ]
)
_SPARE = 32 << 20  # the bytes for code that is mapped later; unused pages take no memory


@dataclass(frozen=True, slots=True)
class MappedCode:
    """Executable code at [start, end) of a process; ``unwind`` is its table, if it has one, made for addresses that are
    ``bias`` lower.
    """

    start: int
    end: int
    bias: int = 0
    unwind: Unwind | None = None


def room(tables: Sequence[Unwind]) -> int:
    """The number of bytes to plan for, if ``tables`` are there at the beginning."""
    return pages(HEAD.itemsize + RULES * RULE.itemsize + 8 * CACHE + 2 * sum(map(_size, tables)) + _SPARE)


def _size(table: Unwind) -> int:
    return 6 * len(table.starts) + 4 * (_page_count(table) + 1) + 24


def _page_count(table: Unwind) -> int:
    return (int(table.starts[-1]) >> PAGE_BITS) + 1 if len(table.starts) else 0


class Tables:
    """Writes the tables. ``buffer`` is their part of the memory, zeroed. They only ever grow; a table that finds no
    room is left out.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._head: Any = np.ndarray((), HEAD, buffer)
        self._rules = np.ndarray((RULES,), RULE, buffer, HEAD.itemsize)
        self._cache = np.ndarray((CACHE,), "<u8", buffer, HEAD.itemsize + self._rules.nbytes)
        self._used = HEAD.itemsize + self._rules.nbytes + self._cache.nbytes
        self._numbers: dict[FrameRule, int] = {}
        self._placed: dict[int, tuple[int, int, int]] = {}  # the places of a table, by its id()
        self._kept: list[Unwind] = []  # keeps tables alive, so that their id() stays theirs
        self._head["rules"] = HEAD.itemsize
        self._head["cache"] = HEAD.itemsize + self._rules.nbytes

    def missed(self) -> bool:
        """Whether a clause has met an address outside of all published code since the last call."""
        found = bool(self._head["missed"])
        if found:
            self._head["missed"] = 0
        return found

    def publish(self, mapped: Sequence[MappedCode]) -> None:
        """Write the list of mapped code, with the places of its tables, for the stacks that clauses record from now on.

        If there is no room for it, the list before stays.
        """
        ordered = sorted((code for code in mapped if code.start < code.end), key=lambda code: code.start)
        rows = [self._module(code) for code in ordered]
        size = 8 + len(rows) * MODULE.itemsize
        at = self._take(size)
        if at is None:
            return
        np.ndarray((len(rows),), MODULE, self._buffer, at + 8)[:] = np.array(rows, MODULE)
        np.ndarray((), "<u8", self._buffer, at)[()] = len(rows)
        self._head["map"] = at
        self._cache[:] = 0

    def _module(self, code: MappedCode) -> tuple[int, ...]:
        table = code.unwind
        places = None if table is None or not len(table.starts) else self._place(table)
        if table is None or places is None:
            return code.start, code.end, code.start, 0, 0, 0, 0, 0
        base = (code.bias + table.base) & (1 << 64) - 1
        return code.start, code.end, base, *places, _page_count(table), len(table.starts)

    def _place(self, table: Unwind) -> tuple[int, int, int] | None:
        """The places of a table's parts: pages, addresses, rules; None if there is no room."""
        known = self._placed.get(id(table))
        if known is not None:
            return known
        count, rows = _page_count(table), len(table.starts)
        at = self._take(4 * (count + 1) + 6 * rows)
        if at is None:
            return None
        places = at, at + 4 * (count + 1), at + 4 * (count + 1) + 4 * rows
        firsts = np.searchsorted(table.starts, np.arange(count + 1, dtype=np.uint64) << np.uint64(PAGE_BITS))
        np.ndarray((count + 1,), "<u4", self._buffer, places[0])[:] = firsts
        np.ndarray((rows,), "<u4", self._buffer, places[1])[:] = table.starts
        np.ndarray((rows,), "<u2", self._buffer, places[2])[:] = self._renumbered(table)
        self._placed[id(table)] = places
        self._kept.append(table)
        return places

    def _renumbered(self, table: Unwind) -> Any:
        numbers = [self._number(rule) for rule in table.rules]
        return np.array(numbers, np.uint16)[table.ids]

    def _number(self, rule: FrameRule) -> int:
        """The number of a rule, which images share. A rule that finds no room gets the number 0."""
        number = self._numbers.get(rule)
        if number is None:
            number = len(self._numbers)
            if number >= RULES:
                return 0
            self._numbers[rule] = number
            self._rules[number] = (rule.how, rule.base, 0, rule.offset, rule.more, rule.pc, rule.bp, rule.bx)
        return number

    def _take(self, size: int) -> int | None:
        at = -(-self._used // 8) * 8
        if at + size > len(self._buffer):
            return None
        self._used = at + size
        return at

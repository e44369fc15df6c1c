# SPDX-License-Identifier: LGPL-2.1-or-later
"""The code of an entry: its addresses from and to, in one piece or several (DWARF 5, section 2.17)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gilk.image.dwarf.entries import AT_ADDR_BASE, DebugEntry
from gilk.image.dwarf.forms import CodeAddress
from gilk.image.encoding import uleb
from gilk.image.memory import MALFORMED

LOW_PC, HIGH_PC, RANGES = 0x11, 0x12, 0x55
_PAIR = struct.Struct("<QQ")
_BASE = (1 << 64) - 1
_MOST = 4096  # the most pieces of one entry
_END, _BASE_INDEX, _START_END_INDEX, _START_LENGTH_INDEX, _OFFSETS, _BASE_ADDRESS, _START_END, _START_LENGTH = range(8)

Range = tuple[int, int]


def ranges(entry: DebugEntry, root: DebugEntry, version: int) -> tuple[Range, ...]:
    """The link-time addresses of an entry's code, in the order in which they are listed; () if there is no code, or if
    the list is not understood. ``root`` is the entry of its unit, and ``version`` that unit's version.
    """
    low = entry.number(LOW_PC)
    if low is not None and RANGES not in entry.attributes:  # with these, it is what they count from
        high = entry.attributes.get(HIGH_PC)
        if not isinstance(high, int):
            return ()
        end = high if isinstance(high, CodeAddress) else low + high
        return ((low, end),) if low < end else ()
    offset = entry.number(RANGES)
    if offset is None:
        return ()
    base = root.number(LOW_PC) or 0
    try:
        found = list(_listed(entry, root, offset, base) if version >= 5 else _paired(entry, offset, base))
    except MALFORMED:
        return ()
    return tuple((start, end) for start, end in found if start < end)


def _paired(entry: DebugEntry, at: int, base: int) -> Iterator[Range]:
    """The ranges of a list in .debug_ranges, the form of versions 3 and 4. Raises IndexError, struct.error."""
    data = entry.file.sections.ranges
    for _ in range(_MOST):
        low, high = _PAIR.unpack_from(data, at)
        at += _PAIR.size
        if not low and not high:
            return
        if low == _BASE:
            base = high
        else:
            yield base + low, base + high
    raise IndexError(at)


def _listed(entry: DebugEntry, root: DebugEntry, at: int, base: int) -> Iterator[Range]:
    """The ranges of a list in .debug_rnglists. Raises IndexError, ImageError, struct.error."""
    data = entry.file.sections.range_lists
    for _ in range(_MOST):
        kind, at = data[at], at + 1
        if kind == _END:
            return
        if kind == _BASE_ADDRESS:
            base, at = _address(data, at)
        elif kind == _BASE_INDEX:
            index, at = uleb(data, at)
            base = _indexed(entry, root, index)
        elif kind in (_START_END, _START_LENGTH):
            low, at = _address(data, at)
            high, at = _address(data, at) if kind == _START_END else uleb(data, at)
            yield low, high if kind == _START_END else low + high
        elif kind in (_OFFSETS, _START_END_INDEX, _START_LENGTH_INDEX):
            first, at = uleb(data, at)
            second, at = uleb(data, at)
            if kind == _OFFSETS:
                yield base + first, base + second
            else:
                low = _indexed(entry, root, first)
                yield low, _indexed(entry, root, second) if kind == _START_END_INDEX else low + second
        else:
            raise IndexError(at)
    raise IndexError(at)


def _address(data: bytes, at: int) -> tuple[int, int]:
    (found,) = struct.unpack_from("<Q", data, at)
    return int(found), at + 8


def _indexed(entry: DebugEntry, root: DebugEntry, index: int) -> int:
    """The address in .debug_addr with a number of the unit. Raises struct.error."""
    base = root.number(AT_ADDR_BASE)
    found, _ = _address(entry.file.sections.addresses, (8 if base is None else base) + 8 * index)
    return found

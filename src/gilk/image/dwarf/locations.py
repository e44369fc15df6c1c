# SPDX-License-Identifier: LGPL-2.1-or-later
"""Locations of variables at an instruction (DWARF 5, sections 2.5 and 2.6): those that are a register, a place in the
frame, or a value that is a constant or differs from a register by one.

All other expressions count as unknown: values in pieces, values that are computed of several registers or of memory,
and values that a register had when the function was called.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from gilk.image.cfi import HARDWARE_NUMBERS
from gilk.image.dwarf.entries import AT_ADDR_BASE, DebugEntry
from gilk.image.encoding import sleb, uleb
from gilk.image.memory import MALFORMED
from gilk.image.value_place import CFA, FARTHEST, ValuePlace
from gilk.values import dataclass

AT_LOCATION, CONST_VALUE, FRAME_BASE, _LOW_PC, _VIEWS = 0x02, 0x1C, 0x40, 0x11, 0x2137
_BASE = (1 << 64) - 1
_MOST = 4096  # the most pieces of one list
_ADDR, _PLUS_UCONST, _CALL_FRAME_CFA, _STACK_VALUE, _IMPLICIT_VALUE = 0x03, 0x23, 0x9C, 0x9F, 0x9E
_LIT0, _REG0, _BREG0, _REGX, _FBREG, _BREGX = 0x30, 0x50, 0x70, 0x90, 0x91, 0x92
#: DW_OP_const1u to const8s: the size, and whether it is signed.
_CONSTANTS = {0x08 + n: (1 << n // 2, bool(n % 2)) for n in range(8)}
_CONSTU, _CONSTS = 0x10, 0x11


@dataclass(frozen=True, slots=True)
class _Piece:
    """An element of a location list: the expression that holds in [low, high). ``views``: its first and last view."""

    low: int
    high: int
    expression: bytes
    views: tuple[int, int] | None = None


def location(
    entry: DebugEntry, root: DebugEntry, version: int, around: DebugEntry | None, at: int, view: int | None
) -> ValuePlace | None:
    """The place of variable ``entry`` before the instruction at ``at`` runs; None if there is none, or none that is
    understood. ``root``: the entry of its unit, ``version`` that unit's version; ``around``: the function that has the
    frame. ``view``: the view of the line table at ``at`` that is meant, None if it is not known.
    """
    try:
        found = _found(entry, root, version, around, at, view)
    except MALFORMED:
        return None
    if found is None or found.base is not None:
        return found if found is not None and abs(found.offset) <= FARTHEST else None
    return replace(found, offset=found.offset & _BASE)


def expression(entry: DebugEntry, root: DebugEntry, version: int, at: int, view: int) -> bytes | None:
    """The expression that tells the place of a variable before the instruction at ``at`` runs; None if there is none.
    It is empty if the place is known elsewhere only, or not understood. ``root``, ``version``: as of location().
    """
    found = entry.attributes.get(AT_LOCATION)
    try:
        if isinstance(found, int):
            return _listed(entry, root, version, found, at, view) or b""
    except MALFORMED:
        return b""
    return found if isinstance(found, bytes) else None


def _found(
    entry: DebugEntry, root: DebugEntry, version: int, around: DebugEntry | None, at: int, view: int | None
) -> ValuePlace | None:
    """As location(), with numbers of any size. Raises MALFORMED."""
    value = entry.attributes.get(CONST_VALUE)
    if value is not None:
        return _constant(value)
    found = entry.attributes.get(AT_LOCATION)
    if isinstance(found, int):
        found = _listed(entry, root, version, found, at, view)
    base = around.attributes.get(FRAME_BASE) if around is not None else None
    return _place(found, base if isinstance(base, bytes) else b"") if isinstance(found, bytes) else None


def constant(entry: DebugEntry) -> int | None:
    """The value of a variable that has the same everywhere, in 64 bits; None if it has a place."""
    value = entry.attributes.get(CONST_VALUE)
    found = _constant(value) if value is not None else None
    return None if found is None else found.offset & _BASE


def _constant(value: object) -> ValuePlace | None:
    if isinstance(value, bytes):
        return ValuePlace(None, int.from_bytes(value, "little")) if len(value) <= 8 else None
    return ValuePlace(None, value) if isinstance(value, int) else None


def _place(expression: bytes, frame: bytes) -> ValuePlace | None:
    """The place that an expression tells; ``frame``: the expression of the frame's base. Raises MALFORMED."""
    if not expression:
        return None
    first = expression[0]
    if _REG0 <= first < _REG0 + 32 or first == _REGX:
        number, end = (first - _REG0, 1) if first != _REGX else uleb(expression, 1)
        return ValuePlace(HARDWARE_NUMBERS[number]) if end == len(expression) else None
    if first == _IMPLICIT_VALUE:
        size, start = uleb(expression, 1)
        value = expression[start:]
        return _constant(value) if len(value) == size else None
    place, at = _pushed(expression, frame)
    while place is not None and at < len(expression):
        code = expression[at]
        if code == _STACK_VALUE:
            return place if at + 1 == len(expression) else None
        if code != _PLUS_UCONST:
            return None
        more, at = uleb(expression, at + 1)
        place = replace(place, offset=place.offset + more)
    return replace(place, loaded=True) if place is not None else None


def _pushed(expression: bytes, frame: bytes) -> tuple[ValuePlace | None, int]:
    """The first value that an expression pushes, and the offset behind its instruction. Raises MALFORMED."""
    code = expression[0]
    if _LIT0 <= code < _LIT0 + 32:
        return ValuePlace(None, code - _LIT0), 1
    if code == _ADDR:
        return ValuePlace(None, int(struct.unpack_from("<Q", expression, 1)[0]), of_image=True), 9
    if code in _CONSTANTS:
        size, signed = _CONSTANTS[code]
        return ValuePlace(None, int.from_bytes(expression[1 : 1 + size], "little", signed=signed)), 1 + size
    if code in (_CONSTU, _CONSTS):
        value, at = (uleb if code == _CONSTU else sleb)(expression, 1)
        return ValuePlace(None, value), at
    if code == _CALL_FRAME_CFA:
        return ValuePlace(CFA), 1
    if _BREG0 <= code < _BREG0 + 32 or code == _BREGX:
        number, at = (code - _BREG0, 1) if code != _BREGX else uleb(expression, 1)
        offset, at = sleb(expression, at)
        return ValuePlace(HARDWARE_NUMBERS[number], offset), at
    if code == _FBREG and frame:
        offset, at = sleb(expression, 1)
        if frame == bytes([_CALL_FRAME_CFA]):
            return ValuePlace(CFA, offset), at
        if len(frame) == 1 and _REG0 <= frame[0] < _REG0 + 32:
            return ValuePlace(HARDWARE_NUMBERS[frame[0] - _REG0], offset), at
    return None, len(expression)


def _listed(entry: DebugEntry, root: DebugEntry, version: int, offset: int, at: int, view: int | None) -> bytes | None:
    """The expression that holds at ``at`` by the list at ``offset``; None if there is none. Raises MALFORMED."""
    base = root.number(_LOW_PC) or 0
    found = list(_of_five(entry, root, offset, base) if version >= 5 else _paired(entry, offset, base))
    here = [piece for piece in _with_views(entry, version, found) if piece.low <= at < max(piece.high, piece.low + 1)]
    # Several statements may begin at the instruction, and the value may differ between them.
    here = [piece for piece in here if _in_view(piece, at, view or 0)]
    return here[0].expression if len(here) == 1 else None


def _in_view(piece: _Piece, at: int, view: int) -> bool:
    """Whether the piece holds in the view; one without views holds in all, if it is not empty."""
    if piece.views is None:
        return piece.low < piece.high
    first, last = piece.views
    return (piece.low < at or first <= view) and (piece.high > at or view < last)


def _with_views(entry: DebugEntry, version: int, pieces: list[_Piece]) -> list[_Piece]:
    """The pieces with the views that gcc writes in front of lists: DW_AT_GNU_locviews. Raises MALFORMED."""
    views = entry.number(_VIEWS)
    if views is None:
        return pieces
    data, found = _data(entry, version), []
    for piece in pieces:
        first, views = uleb(data, views)
        last, views = uleb(data, views)
        found.append(replace(piece, views=(first, last)))
    return found


def _data(entry: DebugEntry, version: int) -> bytes:
    sections = entry.file.sections
    return sections.location_lists if version >= 5 else sections.locations


def _paired(entry: DebugEntry, at: int, base: int) -> Iterator[_Piece]:
    """The pieces of a list in .debug_loc, the form of versions 2 to 4. Raises MALFORMED."""
    data = entry.file.sections.locations
    for _ in range(_MOST):
        low, high = struct.unpack_from("<QQ", data, at)
        at += 16
        if not low and not high:
            return
        if low == _BASE:
            base = high
            continue
        (size,) = struct.unpack_from("<H", data, at)
        yield _Piece(base + low, base + high, data[at + 2 : at + 2 + size])
        at += 2 + size
    raise IndexError(at)


def _of_five(entry: DebugEntry, root: DebugEntry, at: int, base: int) -> Iterator[_Piece]:
    """The pieces of a list in .debug_loclists. Raises MALFORMED."""
    data = entry.file.sections.location_lists
    for _ in range(_MOST):
        kind, at = data[at], at + 1
        if kind == 0:
            return
        if kind == 6:
            (base,) = struct.unpack_from("<Q", data, at)
            at += 8
            continue
        if kind == 1:
            index, at = uleb(data, at)
            base = _indexed(entry, root, index)
            continue
        if kind in (7, 8):
            (low,) = struct.unpack_from("<Q", data, at)
            high, at = uleb(data, at + 8) if kind == 8 else (struct.unpack_from("<Q", data, at + 8)[0], at + 16)
            high += low if kind == 8 else 0
        elif kind in (2, 3, 4):
            first, at = uleb(data, at)
            second, at = uleb(data, at)
            low = base + first if kind == 4 else _indexed(entry, root, first)
            high = base + second if kind == 4 else low + second if kind == 3 else _indexed(entry, root, second)
        else:  # one for all addresses that no other piece is for, which inlined calls do not have, or unknown
            raise IndexError(at)
        size, at = uleb(data, at)
        yield _Piece(low, high, data[at : at + size])
        at += size
    raise IndexError(at)


def _indexed(entry: DebugEntry, root: DebugEntry, index: int) -> int:
    base = root.number(AT_ADDR_BASE)
    (found,) = struct.unpack_from("<Q", entry.file.sections.addresses, (8 if base is None else base) + 8 * index)
    return int(found)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arguments of a function at an instruction where a call of it begins, and the numbers that they would have among the
registers of a call (System V ABI x86-64, 3.2.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gilk.image.dwarf.entries import AT_ORIGIN, DebugEntry, DebugUnit
from gilk.image.dwarf.forms import Reference
from gilk.image.dwarf.languages import AT_LANGUAGE, is_foreign
from gilk.image.dwarf.locations import location
from gilk.image.value_place import ArgumentPlace

_PARAMETER, _BASE, _ENUMERATION = 0x05, 0x24, 0x04
_POINTERS = frozenset((0x0F, 0x10, 0x42))  # pointers and references
_SAME = frozenset((0x16, 0x26, 0x35, 0x37, 0x47))  # typedefs, const, volatile, restrict, _Atomic
_RECORDS = frozenset((0x13, 0x17, 0x02))  # structs, unions, classes
_FLOATING = frozenset((0x03, 0x04, 0x0F))
_TYPE, _SIZE, _ENCODING = 0x49, 0x0B, 0x3E
_C = frozenset((0x01, 0x02, 0x0C, 0x1D, 0x2C))
_IN_REGISTERS = 16  # the most bytes of a struct that is passed in registers
_REGISTERS = 6
_DEEPEST = 8
_NO_REGISTER, _UNCERTAIN = 0, -1  # a parameter takes so many registers; more are their width in bytes


def arguments(
    call: DebugEntry, unit: DebugUnit, around: DebugEntry, at: int, view: int | None
) -> tuple[ArgumentPlace, ...]:
    """The arguments of the call ``call``, an inlined copy of a function or a function of its own, in order, with their
    places at the address ``at``. ``around``: the function that contains the call; ``view``: as of location(). Raises
    ImageError.
    """
    root = call.file.entry(unit.first)
    declared = call.referred(AT_ORIGIN) or call
    there = {each.offset: each for each in _parameters(call)}
    there |= {
        origin.offset: each
        for each in there.values()
        if isinstance(origin := each.attributes.get(AT_ORIGIN), Reference)
    }
    found: list[ArgumentPlace] = []
    number: int | None = _first_number(declared, root)
    if number:
        found.append(ArgumentPlace(0, "(the address of the result)", why="argument-lost"))
    for parameter in _parameters(declared):
        width = _registers(parameter.referred(_TYPE), root)
        if width == _UNCERTAIN:
            number = None
        mine, name = there.get(parameter.offset), _name(parameter)
        if width == _NO_REGISTER or number is None:
            found.append(ArgumentPlace(None, name, why="argument-kind"))
            continue
        place = location(mine, root, unit.version, around, at, view) if mine is not None else None
        if number < _REGISTERS:
            why = "" if place is not None else "argument-lost"
            found.append(ArgumentPlace(number, name, replace(place, width=width) if place is not None else None, why))
        number += 1
    return tuple(found)


def _parameters(entry: DebugEntry) -> Iterator[DebugEntry]:
    return (each for each in entry.file.children(entry) if each.tag == _PARAMETER)


def _name(entry: DebugEntry) -> str:
    return next((each.name for each in entry.chain() if each.name), "")


def _first_number(declared: DebugEntry, root: DebugEntry) -> int | None:
    """The number of the first parameter: 1 if the caller passes an address for the result, None if that is unknown, as
    in languages that do not call functions as C does. (rustc also makes variables of parameters that are constant.)
    """
    if is_foreign(root.number(AT_LANGUAGE)):
        return None
    typed = next((each for each in declared.chain() if _TYPE in each.attributes), None)
    kind = _plain(typed.referred(_TYPE)) if typed is not None else None
    if kind is None or kind.tag not in _RECORDS:
        return 0
    if root.number(AT_LANGUAGE) not in _C:
        return None
    return 1 if (kind.number(_SIZE) or 0) > _IN_REGISTERS else 0


def _registers(declared: DebugEntry | None, root: DebugEntry) -> int:
    """The width in bytes of a parameter that takes one register for integers; 0 for one that takes none, and -1 if that
    is not known."""
    kind = _plain(declared)
    if kind is None:
        return _UNCERTAIN
    size = kind.number(_SIZE) or 0
    if kind.tag in _POINTERS:
        return size if size in (4, 8) else 8
    if kind.tag == _BASE and kind.number(_ENCODING) in _FLOATING:
        return _NO_REGISTER
    if kind.tag in (_BASE, _ENUMERATION) and size in (1, 2, 4, 8):
        return size
    if kind.tag in _RECORDS and root.number(AT_LANGUAGE) in _C and size > _IN_REGISTERS:
        return _NO_REGISTER
    return _UNCERTAIN


def _plain(kind: DebugEntry | None) -> DebugEntry | None:
    """The type without its other names and qualifiers; None for void, and if it is not understood."""
    for _ in range(_DEEPEST):
        if kind is None or kind.tag not in _SAME:
            return kind
        kind = kind.referred(_TYPE)
    return None

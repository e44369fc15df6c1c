# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the variables that are in scope at an instruction: those of the function that contains it, of the blocks in
that, and of the calls that are inlined there (DWARF 5, sections 3.3 to 3.5 and 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gilk.image.dwarf.entries import DebugEntry, DebugUnit, Entries
from gilk.image.dwarf.locations import AT_LOCATION, CONST_VALUE
from gilk.image.dwarf.ranges import Range, ranges
from gilk.values import dataclass

_FUNCTION, _INLINED, _BLOCK, _VARIABLE, _PARAMETER = 0x2E, 0x1D, 0x0B, 0x34, 0x05
#: Namespaces, modules, structs, unions and classes: functions may be defined in these.
_AROUND = frozenset((0x39, 0x1E, 0x13, 0x17, 0x02))
_WITHIN = _AROUND | {_FUNCTION, _BLOCK}  # lambdas lie in functions, too
_DECLARATION, _DECLARED_LINE, _TYPE = 0x3C, 0x3B, 0x49
_INNERMOST = 64  # the most scopes around an instruction


@dataclass(frozen=True, slots=True)
class ScopedVariable:
    """A variable in scope. ``entry`` has its place, ``declared`` its type. ``inlined``: the inlined function whose it
    is, "" for the function around. ``depth``: the number of its scope; the innermost has the highest.
    """

    name: str
    entry: DebugEntry
    declared: DebugEntry
    inlined: str
    depth: int
    line: int  # of its declaration, 0 if it is not known

    @property
    def is_parameter(self) -> bool:
        return self.entry.tag == _PARAMETER


@dataclass(frozen=True, slots=True)
class FunctionScope:
    """The function that contains an instruction, and the variables in scope there, from the outermost scope on.
    ``ranges``: the function's code by link-time addresses; it begins at the first.
    """

    unit: DebugUnit
    function: DebugEntry
    ranges: tuple[Range, ...]
    variables: tuple[ScopedVariable, ...]

    @property
    def entry(self) -> int:
        return self.ranges[0][0]


class Variables:
    """The variables of an image; the functions of a unit are read once."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._functions: dict[tuple[int, frozenset[int]], list[tuple[tuple[Range, ...], DebugEntry]]] = {}

    @cached_property
    def _units(self) -> list[tuple[tuple[Range, ...], DebugUnit]]:
        """The units that have code."""
        roots = ((self._entries.entry(unit.first), unit) for unit in self._entries.units)
        found = ((ranges(root, root, unit.version), unit) for root, unit in roots)
        return [(code, unit) for code, unit in found if code]

    def scope(self, address: int) -> FunctionScope | None:
        """The function that contains a link-time address; None if the debug information has none. Raises
        ImageError."""
        found = self._around(address)
        if found is None:
            return None
        unit, code, function = found
        return FunctionScope(unit, function, code, tuple(self._in_scope(function, unit, address, "", 0)))

    def function(self, start: int) -> DebugEntry | None:
        """The function that begins at a link-time address; None if the debug information has none. Raises
        ImageError."""
        found = self._around(start)
        return found[2] if found is not None and found[1][0][0] == start else None

    def _around(self, address: int) -> tuple[DebugUnit, tuple[Range, ...], DebugEntry] | None:
        for unit in (unit for code, unit in self._units if _is_in(code, address)):
            for code, function in (each for tags in (_AROUND, _WITHIN) for each in self._of(unit, tags)):
                if _is_in(code, address):
                    return unit, code, function
        return None

    def _of(self, unit: DebugUnit, around: frozenset[int]) -> list[tuple[tuple[Range, ...], DebugEntry]]:
        """The functions of a unit that have code and lie in entries with the tags ``around``."""
        if (unit.start, around) not in self._functions:
            root = self._entries.entry(unit.first)
            each = ((ranges(one, root, unit.version), one) for one in _functions(root, around, _INNERMOST))
            self._functions[unit.start, around] = [(code, one) for code, one in each if code]
        return self._functions[unit.start, around]

    def _in_scope(
        self, scope: DebugEntry, unit: DebugUnit, address: int, inlined: str, depth: int
    ) -> Iterator[ScopedVariable]:
        """The variables of a scope and of those in it that contain the address."""
        root, inner = self._entries.entry(unit.first), list[DebugEntry]()
        for each in scope.file.children(scope):
            if each.tag in (_VARIABLE, _PARAMETER):
                yield from _variable(each, inlined, depth)
            elif each.tag in (_BLOCK, _INLINED) and _is_in(ranges(each, root, unit.version), address):
                inner.append(each)
        for each in inner if depth < _INNERMOST else ():
            name = inlined if each.tag == _BLOCK else source_name(each) or "?"
            yield from self._in_scope(each, unit, address, name, depth + 1)


def _functions(scope: DebugEntry, around: frozenset[int], most: int) -> Iterator[DebugEntry]:
    for each in scope.file.children(scope):
        if each.tag == _FUNCTION:
            yield each
        if each.tag in around and most:
            yield from _functions(each, around, most - 1)


def _is_in(code: tuple[Range, ...], address: int) -> bool:
    return any(low <= address < high for low, high in code)


def _variable(entry: DebugEntry, inlined: str, depth: int) -> Iterator[ScopedVariable]:
    """The variable of an entry; none if it has no name, or is declared here and defined elsewhere."""
    chain = list(entry.chain())
    name = next((each.name for each in chain if each.name), "")
    if name and not any(_DECLARATION in each.attributes for each in chain):
        placed = next((each for each in chain if each.attributes.keys() & {AT_LOCATION, CONST_VALUE}), entry)
        declared = next((each for each in chain if _TYPE in each.attributes), entry)
        line = next((found for each in chain if (found := each.number(_DECLARED_LINE))), 0)
        yield ScopedVariable(name, placed, declared, inlined, depth, line)


def source_name(entry: DebugEntry) -> str:
    """The name of an entry in the source, which it may have of another; "" if it has none."""
    return next((each.name for each in entry.chain() if each.name), "")

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jump tables as data: the forms that they have, and reading their entries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from gilk.analysis.jumps import JumpTargets, executable_ranges
from gilk.analysis.parts import FunctionParts, is_cold
from gilk.analysis.traverse import Traversal
from gilk.analysis.values import Load, Value
from gilk.image.model import Image
from gilk.values import dataclass

_MOST: Final = 8192  # the most entries of a table without a bound
_OFFSET: Final = 128  # the most entries between a table's address in the code and its first entry


@dataclass(frozen=True)
class TableForm:
    """The form of a jump to ``base + factor * entry``, with entries of ``size`` bytes, that for index i at ``table +
    size * i``.

    If ``size`` is 0, the entry is the index itself.
    """

    base: int
    factor: int
    size: int
    signed: bool
    table: int
    index: Value


def form_of(value: Value, is_code: Callable[[int], bool]) -> TableForm | None:
    """The form of a jump by a table to ``value``; None if the value has no such form."""
    for atom, factor in value.terms:
        if isinstance(atom, Load):
            form = _loaded(atom, factor, value.plus(Value(0, ((atom, factor),)), -1))
            if form is not None:
                return form
    if len(value.terms) == 1 and is_code(value.const):
        ((atom, factor),) = value.terms
        if abs(factor) > 1:
            return TableForm(value.const, factor, 0, False, 0, Value(0, ((atom, 1),)))
    return None


def _loaded(load: Load, factor: int, rest: Value) -> TableForm | None:
    """The form of a table in ``rest + factor * load``; None if it cannot be one.

    If the base's register is lost on the way (spilled, for example), the base is taken to be the table's own address,
    as compilers have it, and the other way round.
    """
    terms = load.address.terms
    index = tuple((atom, n // load.size) for atom, n in terms if n % load.size == 0)
    if not index and (terms or load.size == 8):
        return None  # the content of a pointer variable is not known; an offset at a fixed place is an entry
    table, base = load.address.const, rest.const
    lost_table, lost_base = len(index) < len(terms), bool(rest.terms)
    if (lost_table and lost_base) or (table == 0 and not lost_table):
        return None
    if lost_table or lost_base:
        if (load.size, load.signed, factor) != (4, True, 1):
            return None
        table = base = base if lost_table else table
    return TableForm(base, factor, load.size, load.signed, table, Value(0, index))


class TableEntries:
    """Reads the jump tables of one image."""

    def __init__(self, image: Image, jumps: JumpTargets, parts: FunctionParts) -> None:
        self._image = image
        self._jumps = jumps
        self._parts = parts
        self._code = executable_ranges(image)
        self._starts = {span.start for span in image.spans}

    def is_code(self, address: int) -> bool:
        return any(low <= address < high for low, high in self._code)

    def is_entry(self, address: int) -> bool:
        return address in self._starts

    def read(self, traversal: Traversal, form: TableForm, bounds: range | None) -> list[int]:
        """The addresses to which the entries lead; [] if they make no sense as a table. ``bounds`` are those of the
        index, None if it has none: then entries are read as long as they make sense.
        """
        if not form.index.terms:
            bounds = range(1)
        if bounds is not None:
            targets = [self._entry(form, i) for i in bounds]
            if all(target is not None and self._possible(traversal, target) for target in targets):
                return [target for target in targets if target is not None]
        if form.size == 0:
            return []
        return sorted({t for first in self._firsts(form) for t in self._as_far_as_sensible(traversal, form, first)})

    def _as_far_as_sensible(self, traversal: Traversal, form: TableForm, first: int) -> list[int]:
        targets: list[int] = []
        stop = self._jumps.next_table(form.table + form.size * first)
        for i in count(first):
            target = self._entry(form, i)
            sensible = self._possible if form.size == 8 else self._plausible
            if target is None or len(targets) >= _MOST or not sensible(traversal, target):
                break
            if stop and form.table + form.size * i >= stop:
                break
            targets.append(target)
        return targets

    def _firsts(self, form: TableForm) -> list[int]:
        """The indices at which the table may begin: entry 0 lies at an address that the code names, near
        ``form.table``.

        Offsets are mostly relative to the table's own address.
        """
        if form.size == 4 and (form.base - form.table) % 4 == 0 and self._may_hold_table(form.base):
            return [(form.base - form.table) // 4]
        tables = self._jumps.tables
        row = int(tables.searchsorted(form.table))
        near = [int(address) - form.table for address in tables[max(row - 1, 0) : row + 1]]
        if 0 in near:
            return [0]
        firsts = [d // form.size for d in near if d % form.size == 0 and abs(d) <= _OFFSET * form.size]
        return firsts or [0]

    def _may_hold_table(self, address: int) -> bool:
        """Whether ``address`` is in data; there the base of offsets can only be the beginning of the table itself."""
        return not self.is_code(address) and bool(self._image.read(address, 4))

    def _entry(self, form: TableForm, i: int) -> int | None:
        if form.size == 0:
            return form.base + form.factor * i
        address = form.table + form.size * i
        if form.size == 8 and address in self._image.relative:
            return self._image.relative[address]
        data = self._image.read(address, form.size)
        if len(data) < form.size:
            return None
        return (form.base + form.factor * int.from_bytes(data, "little", signed=form.signed)) & ((1 << 64) - 1)

    def _possible(self, traversal: Traversal, target: int) -> bool:
        """Whether an entry within bounds, or a whole address, may lead to ``target``: to code of this function or of
        another.
        """
        if traversal.start <= target < traversal.end:
            return traversal.stream_at(target) is not None
        return self._image.span_at(target) is not None

    def _plausible(self, traversal: Traversal, target: int) -> bool:
        """Whether an offset that may be no entry at all may lead to ``target``: like `_possible`, but outside of this
        function it has to be in a cold part, or at the start of a function.
        """
        if traversal.start <= target < traversal.end:
            return traversal.stream_at(target) is not None
        if target in self._starts or any(low <= target < high for low, high in self._parts.of_address(traversal.start)):
            return True
        owner = self._image.span_at(target)
        return owner is not None and is_cold(owner)

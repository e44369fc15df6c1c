# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trapped shadows: variables of a process whose accesses debug registers show, for aspects that say `debugreg`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gilk.engines.aspect.access_shadows import AccessShadow, AccessShadows, NamedAccess
from gilk.engines.aspect.variables import FoundVariable, VariablePart
from gilk.errors import UsageError
from gilk.lang.aspect.code.accessing import MetAccess
from gilk.lang.aspect.code.meeting import MetElement, NumberedAspect
from gilk.targets.debug_registers import MOST
from gilk.values import dataclass

_LARGEST = 8  # bytes that a register watches
_NOWHERE = (("", ""),)  # the functions that make the accesses are not known before


@dataclass(frozen=True, slots=True)
class TrappedVariable:
    """A variable, or a member, from ``start`` on in the process. ``pieces``: address and size of the aligned pieces of
    which it consists."""

    image: str
    name: str
    start: int
    size: int
    pieces: tuple[tuple[int, int], ...]
    read: MetAccess | None
    write: MetAccess | None

    @property
    def elements(self) -> list[MetElement]:
        return [each for met in (self.read, self.write) if met is not None for each in met.elements]


class TrappedShadows(AccessShadows):
    """Finds the variables; takes what AccessShadows takes."""

    _by_debugreg = True

    def variables(self, aspects: Sequence[NumberedAspect]) -> tuple[TrappedVariable, ...]:
        """The variables in order of address. Raises UsageError `no-such-variable`, `ambiguous-variable`,
        `split-access`, `cannot-weave`, `no-means`."""
        pairs = [(self._trapped(*each), each[2][0]) for each in self._by_place(aspects)]
        pairs.sort(key=lambda pair: (pair[0].start, pair[0].size))
        found = [variable for variable, _ in pairs]
        self._check_room(found, [named for _, named in pairs])
        return tuple(found)

    def _trapped(self, variable: FoundVariable, part: VariablePart, named: Sequence[NamedAccess]) -> TrappedVariable:
        read, write = (self._side(variable, part, named, way) for way in (False, True))
        start = variable.address + part.offset
        pieces = tuple(pieces_of(start, part.size))
        return TrappedVariable(variable.loaded.name, named[0].point.path, start, part.size, pieces, read, write)

    def _side(
        self, variable: FoundVariable, part: VariablePart, named: Sequence[NamedAccess], write: bool
    ) -> MetAccess | None:
        here = [one for one in named if one.point.write is write]
        return replace(self._met(variable, part, write, here, _NOWHERE), trapped=True) if here else None

    def _check_room(self, found: Sequence[TrappedVariable], named: Sequence[NamedAccess]) -> None:
        for one, other, by in zip(found, found[1:], named, strict=False):
            if one.start + one.size > other.start:
                raise self._refused("split-access", by.point, f"{one.name} and {other.name} have bytes in common")
        count = sum(len(one.pieces) for one in found)
        if count > MOST:
            names = ", ".join(one.name for one in found)
            why = f"a processor has {MOST} debug registers, each for up to 8 aligned bytes; {names} would take {count}"
            hint = "name a member of it, or fewer variables"
            raise UsageError("no-means", f"{self._line(named[0].point)}: {why}", hint)

    def check_apart(self, found: Iterable[TrappedVariable], others: Iterable[AccessShadow]) -> None:
        """Check that no variable is found in code, too. Raises UsageError `cannot-weave`."""
        elsewhere = {(met.start, met.size, met.point) for one in others for met in (one.read, one.write) if met}
        for one in found:
            for start, size, point in elsewhere:
                if start < one.start + one.size and one.start < start + size:
                    why = f"{point.name} has advice by `debugreg` and without it"
                    line = self._file.source.line(point.span)
                    hint = "say `debugreg` in all aspects about it, or in none"
                    raise UsageError("cannot-weave", f"{self._file.source.name}, line {line}: {why}", hint)


def pieces_of(start: int, size: int) -> Iterator[tuple[int, int]]:
    """The largest aligned pieces, each as address and size, that together are the bytes from ``start`` on."""
    while size:
        piece = next(n for n in (_LARGEST, 4, 2, 1) if n <= size and start % n == 0)
        yield start, piece
        start, size = start + piece, size - piece

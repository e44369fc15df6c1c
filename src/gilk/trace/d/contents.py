# SPDX-License-Identifier: LGPL-2.1-or-later
"""The contents of an aggregation: rows of keys and cells; and the values that cells stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

from gilk.lang.data import Aggregation, Function
from gilk.lang.types import signed
from gilk.trace.d.values import Distribution, Integer, Value
from gilk.values import dataclass

DISTRIBUTIONS = frozenset({Function.QUANTIZE, Function.LQUANTIZE, Function.LLQUANTIZE})
_64 = (1 << 64) - 1
_128 = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class AggregationRow:
    """A row of an aggregation. ``key`` is the key as it was recorded, by which rows are sorted; ``keys``, decoded from
    it, are printed. ``raw``: all recorded keys that this row stands for.

    ``processors``: with the option aggpercpu, the same cells for each processor.
    """

    key: bytes
    keys: tuple[Value, ...]
    cells: tuple[int, ...]
    processors: tuple[tuple[int, tuple[int, ...]], ...] = ()
    raw: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of an aggregation. ``normal`` is the factor of normalize(), 1 after denormalize()."""

    aggregation: Aggregation
    rows: tuple[AggregationRow, ...] = ()
    normal: int = 1

    def normalized(self, by: int) -> Contents:
        """The same contents, to be divided by ``by`` when they are shown; 0 stands for 1."""
        return replace(self, normal=by or 1)

    def total(self, cells: Sequence[int]) -> Value:
        """The value that the cells stand for: a number, or a distribution."""
        what = self.aggregation.what
        if what.function in DISTRIBUTIONS:
            return Distribution(what, tuple(map(signed, cells)), self.normal)
        unsigned = what.function in (Function.COUNT, Function.STDDEV)
        return Integer(number(what.function, cells, self.normal), 8, not unsigned)


def number(function: Function, cells: Sequence[int], normal: int = 1) -> int:
    """The value of cells that are no distribution. Divisions are C's, first by ``normal``, then by the count."""
    if function is Function.STDDEV:
        return stddev(cells, normal)
    if function is Function.AVG:
        count, total = signed(cells[0]), signed(cells[1])
        return divided(divided(total, normal), count) if count else 0
    return divided(signed(cells[0]), normal)


def stddev(cells: Sequence[int], normal: int = 1) -> int:
    """The integral square root of the mean of squares less the square of the mean.

    The sum of squares has 128 bits; the means are rounded towards 0, as DTrace does.
    """
    count, total = signed(cells[0]), signed(cells[1])
    if count <= 0:
        return 0
    squares = ((cells[3] & _64) << 64 | cells[2] & _64) // normal // count
    mean = divided(divided(total, normal), count)
    return isqrt((squares - mean * mean) & _128)


def divided(value: int, by: int) -> int:
    """The quotient rounded towards 0, as in C."""
    return value // by if (value < 0) == (by < 0) else -(-value // by)

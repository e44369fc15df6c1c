# SPDX-License-Identifier: LGPL-2.1-or-later
"""The order of aggregations' rows: by value, then by key; and the rows that trunc() keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from gilk.lang.d import buckets
from gilk.lang.data import Aggregating, Aggregation, Datum, Kind
from gilk.lang.types import signed
from gilk.trace.d.contents import DISTRIBUTIONS, AggregationRow, Contents, number
from gilk.values import dataclass

Keys: TypeAlias = tuple[int | bytes | tuple[int, ...], ...]
Values: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """The options aggsortkey, aggsortkeypos, aggsortpos and aggsortrev.

    ``position``: the number of the aggregation by which to sort several. Positions that do not exist count as 0.
    """

    by_key: bool = False
    key_position: int = 0
    position: int = 0
    reverse: bool = False


BY_VALUE = Order()


def ordered(contents: Sequence[Contents], order: Order = BY_VALUE) -> list[tuple[Contents, AggregationRow]]:
    """All rows in order: those of one aggregation together, in the order of the aggregations' numbers."""
    pairs = [(one, row) for one in contents for row in one.rows]

    def rank(pair: tuple[Contents, AggregationRow]) -> tuple[int, Values, Keys]:
        one, row = pair
        weights = () if order.by_key else weight(one.aggregation.what, row.cells)
        return one.aggregation.number, weights, key_rank(one.aggregation, row.key, order.key_position)

    return sorted(pairs, key=rank, reverse=order.reverse)


def truncated(contents: Contents, keep: int = 0) -> Contents:
    """The contents after trunc(): the ``keep`` rows of the largest values; of the smallest if negative. Options do not
    matter.
    """
    rows = [row for _, row in ordered([contents], Order(reverse=keep >= 0))]
    return replace(contents, rows=tuple(rows[: abs(keep)]))


def weight(what: Aggregating, cells: Sequence[int]) -> Values:
    """The sort key of a value. For a distribution it is the sum of its values, then the number of those that are 0."""
    if what.function not in DISTRIBUTIONS:
        return (number(what.function, cells),)
    starts, nought = buckets.starts(what), buckets.zero(what)
    counts = [signed(cell) for cell in cells]
    total = sum(start * count for start, count in zip(starts, counts, strict=True))
    return total, 0 if nought is None else counts[nought]


def key_rank(aggregation: Aggregation, key: bytes, position: int = 0) -> Keys:
    """The sort key of a key: its parts from the one at ``position`` on, then those before it."""
    datums = aggregation.keys
    first = position if 0 <= position < len(datums) else 0
    return tuple(_rank(datum, key) for datum in (*datums[first:], *datums[:first]))


def _rank(datum: Datum, key: bytes) -> int | bytes | tuple[int, ...]:
    """The sort key of a part of a key. Integers count as unsigned, since DTrace looks only at their size; addresses are
    sorted by process first.
    """
    part = key[datum.offset : datum.offset + datum.size]
    if datum.kind in (Kind.USYM, Kind.UMOD, Kind.UADDR):
        return tuple(int.from_bytes(part[at : at + 8], "little") for at in (0, 8))
    return int.from_bytes(part, "little") if datum.size in (1, 2, 4, 8) else part

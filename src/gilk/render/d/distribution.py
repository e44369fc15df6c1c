# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws quantize(), lquantize() and llquantize() as histograms."""

from __future__ import annotations

from collections.abc import Sequence

from gilk.lang.d.buckets import ZERO, labels, starts
from gilk.lang.data import Aggregating, Function
from gilk.render.d.columns import left, right
from gilk.trace.d.contents import divided
from gilk.trace.d.values import Distribution

_WIDTH = 40
_TITLE = "------------- Distribution -------------"
_HEADER = b"\n" + right("value", 16) + b" " + right(_TITLE, 41) + b" " + left("count", 9) + b"\n"


def drawn(value: Distribution) -> bytes:
    return distribution(value.what, value.counts, value.normal)


def distribution(what: Aggregating, counts: Sequence[int], normal: int = 1) -> bytes:
    """The histogram. ``counts`` are signed, by cell. ``normal`` divides the numbers that are printed; bars stay as they
    are.
    """
    first, last = shown(what, counts)
    names = labels(what, first)
    bar = _Bars(counts)
    rows = (right(names[at], 16) + b" " + bar.row(counts[at], normal) for at in range(first, last + 1))
    return _HEADER + b"".join(rows)


def rows(value: Distribution) -> list[dict[str, str | int]]:
    """The buckets that a picture of the distribution shows: ``bucket``, its name, ``value``, where it begins, and
    ``count``.
    """
    first, last = shown(value.what, value.counts)
    names, begins = labels(value.what, first), starts(value.what)
    return [
        {"bucket": names[at], "value": begins[at], "count": divided(value.counts[at], value.normal)}
        for at in range(first, last + 1)
    ]


def shown(what: Aggregating, counts: Sequence[int]) -> tuple[int, int]:
    """The first and last cell to print: those that are not empty, and an empty one on either side."""
    full = [at for at, count in enumerate(counts) if count]
    if full:
        return max(full[0] - 1, 0), min(full[-1] + 1, len(counts) - 1)
    match what.function:
        case Function.QUANTIZE:
            return ZERO - 1, ZERO + 1
        case Function.LQUANTIZE:
            return 0, 2
    middle = len(counts) // 2
    return middle, min(middle + 2, len(counts) - 1)


class _Bars:
    """The bars of a histogram. Counts may be negative, if values were given a negative weight: their bars go to the
    left.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.total = sum(map(abs, counts))
        self.positive = any(count > 0 for count in counts)
        self.negative = any(count < 0 for count in counts)

    def row(self, count: int, normal: int) -> bytes:
        number = b" " + left(str(divided(count, normal)), 9) + b"\n"
        if not self.negative:
            return b"|" + self.bar(count, _WIDTH).ljust(_WIDTH) + number
        if not self.positive:
            return self.bar(count, _WIDTH).rjust(_WIDTH) + b"|" + number
        half = self.bar(count, _WIDTH // 2)
        before, after = (half, b"") if count <= 0 else (b"", half)
        return before.rjust(_WIDTH // 2) + b"|" + after.ljust(_WIDTH // 2) + number

    def bar(self, count: int, width: int) -> bytes:
        return b"@" * ((2 * abs(count) * width + self.total) // (2 * self.total)) if self.total else b""

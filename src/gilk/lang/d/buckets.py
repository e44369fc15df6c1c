# SPDX-License-Identifier: LGPL-2.1-or-later
"""The distributions quantize(), lquantize() and llquantize(): the cell that counts a value, and the meaning of cells.

The runtime in C is tested against `bucket`. Values are signed and have 64 bits.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from gilk.lang.data import Aggregating, Function

ZERO = 63  # the cell of quantize() for 0
LAST = 126


def bucket(what: Aggregating, value: int) -> int:
    """The number of the cell that counts ``value``."""
    match what.function:
        case Function.QUANTIZE:
            return quantize(value)
        case Function.LQUANTIZE:
            return lquantize(what, value)
        case Function.LLQUANTIZE:
            return llquantize(what.edges, value)
    raise ValueError(f"{what.function} is no distribution")


def quantize(value: int) -> int:
    """The cell of quantize(), by powers of two: 1 is in the cell after ZERO, 2 and 3 in the next. -2**63 shares the
    cell of -2**62.
    """
    bits = abs(value).bit_length()
    return min(ZERO + bits, LAST) if value >= 0 else max(ZERO - bits, 0)


def lquantize(what: Aggregating, value: int) -> int:
    """The cell of lquantize(): cell 0 counts values below ``low``, the last one values above all steps."""
    if value < what.low:
        return 0
    return min((value - what.low) // what.step, _levels(what)) + 1


def llquantize(edges: Sequence[int], value: int) -> int:
    """The cell of llquantize(): the middle one counts values nearer to 0 than any edge; ``len(edges)`` cells are on
    either side.
    """
    passed = bisect.bisect_right(edges, abs(value))
    return len(edges) + (passed if value >= 0 else -passed)


def starts(what: Aggregating) -> tuple[int, ...]:
    """For each cell, the value that stands for it when distributions are compared: its end that is nearer to 0.

    For lquantize()'s outer cells DTrace takes the value just outside.
    """
    match what.function:
        case Function.QUANTIZE:
            powers = [1 << k for k in range(63)]
            return (*(-power for power in reversed(powers)), 0, *powers)
        case Function.LQUANTIZE:
            top = what.low + _levels(what) * what.step
            return (what.low - 1, *range(what.low, top, what.step), top + 1)
        case Function.LLQUANTIZE:
            edges = what.edges
            return (*(-edge for edge in reversed(edges)), 0, *edges)
    raise ValueError(f"{what.function} is no distribution")


def labels(what: Aggregating, first: int = 0) -> tuple[str, ...]:
    """The text printed beside each cell, in order. ``first``: the first cell that is shown; llquantize()'s middle cell
    is labelled ``abs() < N`` only if negative values are shown.
    """
    match what.function:
        case Function.LQUANTIZE:
            values = [str(start) for start in starts(what)[1:-1]]
            return (f"< {what.low}", *values, f">= {what.low + _levels(what) * what.step}")
        case Function.LLQUANTIZE:
            return _llquantize_labels(what.edges, first)
    return tuple(str(start) for start in starts(what))


def zero(what: Aggregating) -> int | None:
    """The cell of 0, which breaks ties. As in DTrace, lquantize() has such a cell only if a step begins at 0; otherwise
    None.
    """
    values = starts(what)
    return values.index(0) if 0 in values else None


def _levels(what: Aggregating) -> int:
    return what.cells - 2


def _llquantize_labels(edges: Sequence[int], first: int) -> tuple[str, ...]:
    *inner, last = edges
    nearest = edges[0]
    middle = "0" if nearest == 1 else f"< {nearest}" if first >= len(edges) else f"abs() < {nearest}"
    below = [f"<= -{last}", *(f"-{edge}" for edge in reversed(inner))]
    return (*below, middle, *(str(edge) for edge in inner), f">= {last}")

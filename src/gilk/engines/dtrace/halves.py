# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables as expressions of D that look N up by bisection, so that an expression is not much deeper than the logarithm
of its rows."""

from __future__ import annotations

from collections.abc import Sequence


def chosen(rows: Sequence[tuple[int, str]]) -> str:
    """An expression for the text of the last row whose number is not above N; of the first row if N is below all.
    ``rows`` is not empty."""
    if len(rows) == 1:
        return rows[0][1]
    half = len(rows) // 2
    return f"(N < {rows[half][0]} ? {chosen(rows[:half])} : {chosen(rows[half:])})"

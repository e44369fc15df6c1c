# SPDX-License-Identifier: LGPL-2.1-or-later
"""A table as an expression of D that looks up N by halves: no expression is much deeper than its logarithm."""

from __future__ import annotations

from collections.abc import Sequence


def chosen(rows: Sequence[tuple[int, str]]) -> str:
    """The text of the last row whose number N is not below; of the first for all below it. There is one at least."""
    if len(rows) == 1:
        return rows[0][1]
    half = len(rows) // 2
    return f"(N < {rows[half][0]} ? {chosen(rows[:half])} : {chosen(rows[half:])})"

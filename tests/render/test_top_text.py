# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of a period of ``gilk top`` in which all was called too often to be followed."""

from __future__ import annotations

from gilk.render.top import to_text
from gilk.trace.folding import FunctionFigures, TopPeriod

SEEN = {(f"f{n}", "a.out"): 100 - n for n in range(30)}


def test_without_followed_calls_rows_are_those_of_samples() -> None:
    text = to_text(TopPeriod(0, 10**9, (), 0, 0, (), SEEN), 20, "self", False)
    first, heading, *rows = text.splitlines()
    assert first == "1s, no calls are followed; samples tell where threads ran"
    assert heading.endswith(f"{sum(SEEN.values())} samples:")
    assert [row.split()[2] for row in rows[:-1]] == [f"f{n}" for n in range(20)]
    assert rows[-1] == f"  and {sum(100 - n for n in range(20, 30))} samples in 10 others"
    assert len(to_text(TopPeriod(0, 10**9, (), 0, 0, (), SEEN), 0, "self", False).splitlines()) == 2 + 30


def test_rows_of_followed_calls_come_first() -> None:
    row = FunctionFigures("g", "a.out", 3, 5, 7)
    lines = to_text(TopPeriod(0, 10**9, (row,), 1, 0, (), SEEN), 20, "self", False).splitlines()
    assert lines[0] == "1s, 3 calls of 1 function in 1 thread" and "g" in lines[2]
    assert len([line for line in lines if line.endswith(" of a.out")]) == 12

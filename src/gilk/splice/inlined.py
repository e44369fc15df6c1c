# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds the instruction at which a call of an inlined function begins in another function, and says whether calls can
be counted there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.splice.plan import Refusal
from gilk.splice.points import reached

Ranges = Sequence[tuple[int, int]]


def beginning(
    analysis: Analysis, function: Function, code: Ranges, entry: int | None
) -> tuple[int, Refusal | None]:  # fmt: skip
    """The link-time address at which the inlined call begins, and the reason why no instrument can be there, or None.
    ``code``: the address ranges (from, to) of the inlined function's instructions in ``function``; ``entry``: the
    address of its beginning, None if the compiler does not tell.
    """
    ways = list(_ways(analysis, function))
    if entry is None:
        heads = {to for source, to in ways if _in(code, to) and not _in(code, source)}
        if _in(code, function.start):
            heads.add(function.start)
        if len(heads) != 1:
            return (code[0][0] if code else function.start), Refusal.INLINED_ENTRY
        (entry,) = heads
    if all(step != entry for step in reached(analysis, function)):
        return entry, Refusal.NO_CODE
    back = {source for source, to in ways if to == entry and _in(code, source)}
    return entry, Refusal.INLINED_LOOP if back and back & _reached(ways, entry) else None


def _in(code: Ranges, address: int) -> bool:
    return any(low <= address < high for low, high in code)


def _reached(ways: Iterable[tuple[int, int]], start: int) -> set[int]:
    """The instructions that control may reach from ``start``, including ``start``."""
    further: dict[int, list[int]] = {}
    for source, to in ways:
        further.setdefault(source, []).append(to)
    found, waiting = {start}, [start]
    while waiting:
        fresh = [to for to in further.get(waiting.pop(), ()) if to not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _ways(analysis: Analysis, function: Function) -> Iterator[tuple[int, int]]:
    """The pairs (from, to) of instructions of the function between which control may pass."""
    for block in function.blocks:
        steps = [step.instruction.ip for step in analysis.steps(function, block)]
        yield from itertools.pairwise(steps)
        if steps:
            yield from ((steps[-1], successor) for successor in block.successors)
            if block.target:
                yield steps[-1], block.target

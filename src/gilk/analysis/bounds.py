# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out how large the index of a jump table can get: from the comparison that guards the jump, or from the index
itself.
"""

from __future__ import annotations

from typing import Final

from iced_x86 import ConditionCode, Instruction, Mnemonic

from gilk.analysis import values
from gilk.analysis.evaluate import Evaluator
from gilk.analysis.model import Block, End
from gilk.analysis.values import Narrow, Value

_BLOCKS_BACK: Final = 8
_LARGEST: Final = 1 << 16  # the most entries of a table; a larger bound counts as none

# For a jump that is taken when `a CONDITION b` holds: the largest a, relative to b, behind the jump
# if it is taken, or if it is not.
_TAKEN: Final[dict[int, int]] = {ConditionCode.BE: 0, ConditionCode.B: -1, ConditionCode.LE: 0, ConditionCode.L: -1}
_NOT_TAKEN: Final[dict[int, int]] = {ConditionCode.A: 0, ConditionCode.AE: -1, ConditionCode.G: 0, ConditionCode.GE: -1}
# The smallest a, relative to b, if b is negative and so among the largest unsigned numbers.
_TAKEN_ABOVE: Final[dict[int, int]] = {ConditionCode.AE: 0, ConditionCode.A: 1}
_NOT_TAKEN_ABOVE: Final[dict[int, int]] = {ConditionCode.B: 0, ConditionCode.BE: 1}
_EQUAL: Final = ConditionCode.E


def index_range(evaluator: Evaluator, block: Block, index: Value) -> range | None:
    """The values that ``index`` (its constant ignored) can have where ``block`` ends; None if nothing bounds it. A
    lower bound comes from the offset that is subtracted before an unsigned comparison; without one, it is 0.
    """
    found = _guard(evaluator, block, index, _BLOCKS_BACK, {block.start})
    if found is None:
        found = _inherent(index)
    return found if found is not None and len(found) <= _LARGEST else None


def _inherent(index: Value) -> range | None:
    if len(index.terms) != 1:
        return None
    ((atom, factor),) = index.terms
    limit = values.limit_of(atom)
    return range(limit) if factor == 1 and limit <= _LARGEST else None


def _guard(evaluator: Evaluator, block: Block, index: Value, depth: int, seen: set[int]) -> range | None:
    """The smallest range that contains those of all ways into ``block``, looking at most ``depth`` blocks back; None if
    some way has no bound.
    """
    widest: range | None = None
    for predecessor in evaluator.reaching.predecessors.get(block.start, []):
        found = _compared(evaluator, predecessor, block, index)
        if found is None:
            if depth == 0 or predecessor.start in seen:
                return None
            found = _guard(evaluator, predecessor, index, depth - 1, seen | {predecessor.start})
            if found is None:
                return None
        widest = found if widest is None else range(min(widest.start, found.start), max(widest.stop, found.stop))
    return widest


def _compared(evaluator: Evaluator, guard: Block, behind: Block, index: Value) -> range | None:
    """The range of ``index`` at ``behind`` if ``guard`` ends with a comparison of it; None otherwise."""
    if guard.how is not End.BRANCH or guard.terminator == guard.end:
        return None
    body = evaluator.body(guard)
    position = _comparison(body)
    if position is None:
        return None
    left, right = (evaluator.operand(guard, position, body[position], n) for n in (0, 1))
    if right.terms or not _same(left, index):
        return None
    allowed = _allowed(body[-1], behind.start, right.const)
    return None if allowed is None else range(allowed.start - left.const, allowed.stop - left.const)


def _allowed(jump: Instruction, behind: int, bound: int) -> range | None:
    """The values that a number compared with ``bound`` can have at the block ``behind`` the jump; None if the jump
    bounds nothing there.
    """
    condition = jump.condition_code
    taken = jump.near_branch_target == behind
    if condition == _EQUAL and taken:
        return range(bound, bound + 1)
    largest = (_TAKEN if taken else _NOT_TAKEN).get(condition)
    if largest is not None and bound >= 0:
        return range(bound + largest + 1)
    smallest = (_TAKEN_ABOVE if taken else _NOT_TAKEN_ABOVE).get(condition)
    return range(bound + smallest, 0) if smallest is not None and bound < 0 else None


def _same(compared: Value, index: Value) -> bool:
    """Whether the value ``compared`` is ``index`` itself, or the low bits of it."""
    if compared.terms == index.terms:
        return True
    atom = compared.atom
    return isinstance(atom, Narrow) and atom.shift == 0 and atom.value.terms == index.terms


def _comparison(body: list[Instruction]) -> int | None:
    """The position of the comparison whose flags the last instruction tests; None if there is none."""
    for position in range(len(body) - 2, -1, -1):
        if body[position].mnemonic in (Mnemonic.CMP, Mnemonic.SUB):
            return position
        if body[position].rflags_modified:
            return None
    return None

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Estimates of how long a hit of an element takes, depending on what it finds; they need the automaton only, no code.

They add up figures in nanoseconds from docs/bench.md along the way of a hit. They serve to compare elements and aspects
with each other and promise nothing. They leave out the program's own functions and macros in conditions, and advice
itself.
"""

from __future__ import annotations

from gilk.lang.aspect.automaton import (
    Advising,
    AliasAccess,
    Alternative,
    Automaton,
    BoundName,
    ControlFlow,
    Demand,
    Element,
    Moment,
    Sharing,
    Take,
    is_access,
)
from gilk.lang.aspect.derived import elements, keys, record
from gilk.lang.aspect.fragments import ctype, expression
from gilk.lang.aspect.kernel_accessors import accessed
from gilk.lang.d import ast
from gilk.lang.d.depth import children
from gilk.lang.types import size_of
from gilk.values import dataclass

JUMPS = 0.62  # to a patch and back
CALL = 1.23
SWAP = 2.39  # a compare-and-swap: the transition itself
_STEP = 0.31  # an instruction or two that wait for those before them: a load, a test, an operator
_ACTIVATION = 5.0  # to keep data from an entry to its return, and to compare at each return point
_SIDE_STACK = 8.6  # to switch to advice in place that proceeds, and back
_COUNTER = 1.0  # to look at the counter of one function of a control flow
FRAME = 8.0  # to step from a frame of the stack to that of its caller
COPY, COPIED = 1500.0, 8192  # to copy so many bytes of the stack, beyond the page of the stack pointer
TRAP = 40_000.0  # to stop a thread at a debug register, and to lead it to advice
_HASH, _PROBE = 4 * _STEP, 6 * _STEP
_WORD = 2 * _STEP  # to read or write eight bytes of a record


@dataclass(frozen=True, slots=True)
class HitCost:
    """Estimates in nanoseconds. ``idle``: no instance is open that the element could move, and it is not the first.
    ``passed``: some are open, but it moves none. ``moved``: it moves or begins one. ``each``: the extra time for each
    open instance that has to be looked at.
    """

    idle: float
    passed: float
    moved: float
    each: float


def hit_costs(automaton: Automaton) -> tuple[HitCost, ...]:
    """The estimates for each element, those of ``until`` last."""
    return tuple(_cost(automaton, number, one) for number, one in enumerate(elements(automaton)))


def _cost(automaton: Automaton, number: int, element: Element) -> HitCost:
    reach = JUMPS + max(_reach(element, one, automaton.walk) for one in element.alternatives)
    test = sum(_tests(one, element.places == ("K",)) for one in element.alternatives)
    if automaton.after(0) is None:
        return HitCost(reach, reach + test, reach + test + _advice(element), 0)
    copied = record(automaton).size / 8 * _WORD
    keyed = bool(keys(automaton, number))
    search = _search(automaton, number, element)
    own = automaton.sharing is not Sharing.ANY and not keyed and number > 0
    turn = _STEP if own and automaton.sharing is Sharing.THREAD else SWAP
    idle = reach + _STEP
    moved = reach + search + test + copied + turn + (SWAP if number == 0 else 0) + _advice(element)
    each = 0 if keyed or number == 0 else _STEP * 2 + test
    return HitCost(idle if number else reach + test, reach + search + (0 if keyed else test), moved, each)


def _search(automaton: Automaton, number: int, element: Element) -> float:
    """The time to find the instance; for the first element, to find a free slot, and an equal instance if instances are
    unique.
    """
    if number == 0:
        return _PROBE * (1 + bool(automaton.unique))
    names = {*keys(automaton, number)}
    size = sum(_size(one) for each in element.alternatives[:1] for one in each.binds if one.name in names)
    return _HASH + size / 8 * _WORD + _PROBE if names else _STEP


def _reach(element: Element, alternative: Alternative, walk: bool) -> float:
    """The time to reach the tests: the call of the advice's function, or of the matcher's. ``walk``: control flows are
    looked for on the stack, here right around the event."""
    after = element.moment(alternative) is Moment.AFTER
    if element.seen_late and is_access(alternative.point):
        return TRAP
    found = CALL
    match alternative.point:
        case ControlFlow(outer=outer):
            found += (FRAME if walk else _COUNTER) * len(outer)
        case AliasAccess():
            return found + 4 * _STEP  # two compares, or a bit of a map
    return found + (_ACTIVATION if after else 0)


def _advice(element: Element) -> float:
    if element.advice is None:
        return 0
    proceeds = element.advice.when is Advising.INPLACE and "proceed" in element.advice.text
    return CALL + (_SIDE_STACK if proceeds else 0)


def _tests(alternative: Alternative, kernel: bool) -> float:
    """The time for conditions and binds: a step for each operator, and a call for each function that they call. In the
    kernel, functions that only read members count as those reads.
    """
    found = 0.0
    for one in alternative.qualifiers:
        if isinstance(one, Take):
            continue
        tree = expression(one.expression)
        found += CALL if tree is None else _computed(tree, kernel)
        found += 0 if isinstance(one, Demand) else _size(one.name) / 8 * _WORD
    return found


def _computed(tree: ast.Node, kernel: bool) -> float:
    if kernel and isinstance(tree, ast.Call) and (value := accessed(tree)) is not None:
        return _computed(value, kernel)
    own = CALL if isinstance(tree, ast.Call) else 0 if isinstance(tree, ast.Name | ast.Number) else _STEP
    return own + sum(_computed(one, kernel) for one in children(tree))


def _size(name: BoundName) -> int:
    known = ctype(name.ctype) if name.ctype else None
    return (size_of(known, 0) if known is not None else 0) or 8

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans for the kernel: those that splice.planner makes, and those for entries of functions.

A traced function begins with a nop that ftrace turns into a call. That instruction belongs to ftrace, so an entry is
spliced right behind it; the nop has done nothing by then. Only if no jump fits there does ftrace call the patch; that
is as quick, but costs a registration for each function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gilk.analysis.model import Function
from gilk.arch.asm import CALL_SIZE
from gilk.splice import planner
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import FunctionPlan, Plan, Want
from gilk.splice.tactics.fentry import FENTRY
from gilk.splice.tactics.trap import TRAP

Wanted = tuple[Function, list[Want]]


def plan(context: PatchContext, wanted: Iterable[Wanted]) -> Plan:
    """Plans for all functions, from the highest address down; a want that cannot be met has a refusal in its function's
    plan.

    Raises OutOfSpace when the arena is full.
    """
    given = {function.start: (function, wants) for function, wants in wanted}
    moved = {start: _behind(context, *item) for start, item in given.items()}
    made = planner.plan(context, [(function, moved[start]) for start, (function, _) in given.items()])
    functions = sorted(given, reverse=True)  # the order of the plans
    plans = zip(functions, made.functions, strict=True)
    return Plan(tuple(_with_entry(context, *given[start], first) for start, first in plans))


def _behind(context: PatchContext, function: Function, wants: list[Want]) -> list[Want]:
    """The wants, with those at the entry moved behind ftrace's call, if nothing else leads there."""
    call = FENTRY.call_of(context, function)
    behind = call + CALL_SIZE
    if not call or not _falls_behind(function, call):
        return wants
    return [replace(w, address=behind, after=False) if _is_entry(w, call, function) else w for w in wants]


def _falls_behind(function: Function, call: int) -> bool:
    """Whether control reaches the instruction behind ftrace's call only by falling through the call."""
    first = function.block_at(function.start)
    return first is not None and first is function.block_at(call + CALL_SIZE)


def _is_entry(want: Want, call: int, function: Function) -> bool:
    """Whether a want is at the entry: before ftrace's call, or right behind it, which is the same since the call does
    nothing.
    """
    if want.address == call + CALL_SIZE and not want.after:
        return _falls_behind(function, call)
    return function.start <= want.address <= call


def _with_entry(context: PatchContext, function: Function, wants: list[Want], first: FunctionPlan) -> FunctionPlan:
    """The plan with entry wants led to their patch by ftrace, if the planner found nothing better than a trap
    for them.
    """
    call = FENTRY.call_of(context, function)
    entry = [want for want in wants if call and _is_entry(want, call, function)]
    if not entry or first.tactics.get(entry[0].key, TRAP.name) != TRAP.name:
        return first
    planner.forget(context, first)
    rest = [want for want in wants if want not in entry]
    (made,) = planner.plan(context, [(function, rest)]).functions
    return FENTRY.add(context, function, entry, made)

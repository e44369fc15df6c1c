# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans for the kernel: those of splice.planner, and entries of functions.

A traced function begins with a nop that ftrace turns into a call. It is
ftrace's, so an entry is led away right behind it, where as much has happened:
nothing. Only where no jump fits there does the patch become what ftrace
calls; that is as quick, but costs a registration for each function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gilk.analysis.model import Function
from gilk.arch import asm
from gilk.splice import planner
from gilk.splice.code import CodeBuilder
from gilk.splice.emit import RETURN_ADDRESS, emit_instruments
from gilk.splice.ground import Ground
from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Plan, Refusal, Site, Splice, Tactic, Want

_CALL_SIZE = 5
_FARTHEST = 4  # an endbr64 may come first

Wanted = tuple[Function, list[Want]]


def plan(ground: Ground, wanted: Iterable[Wanted]) -> Plan:
    """Plans for all functions; a want that cannot be met is refused by name there.

    Raises OutOfSpace when the arena is full.
    """
    given = {function.start: (function, wants) for function, wants in wanted}
    moved = {start: _behind(ground, *item) for start, item in given.items()}
    made = planner.plan(ground, [(function, moved[start]) for start, (function, _) in given.items()])
    functions = sorted(given, reverse=True)  # the order of the plans
    plans = zip(functions, made.functions, strict=True)
    return Plan(tuple(_with_entry(ground, *given[start], first) for start, first in plans))


def fentry(ground: Ground, function: Function) -> int:
    """Where the call for ftrace is at the function's entry; 0 when there is none."""
    start = function.start
    for low, high, reason in ground.reserved(start, start + _FARTHEST + 1):
        if reason == Refusal.FENTRY and start <= low <= start + _FARTHEST and high - low == _CALL_SIZE:
            return low
    return 0


def _behind(ground: Ground, function: Function, wants: list[Want]) -> list[Want]:
    """Entry wants behind ftrace's call, if nothing else leads there."""
    call = fentry(ground, function)
    behind = call + _CALL_SIZE
    if not call or not _falls_behind(function, call):
        return wants
    return [replace(w, address=behind, after=False) if _is_entry(w, call, function) else w for w in wants]


def _falls_behind(function: Function, call: int) -> bool:
    """Nothing but ftrace's call leads behind it."""
    first = function.block_at(function.start)
    return first is not None and first is function.block_at(call + _CALL_SIZE)


def _is_entry(want: Want, call: int, function: Function) -> bool:
    """Before ftrace's call or behind it is the same: it does nothing."""
    if want.address == call + _CALL_SIZE and not want.after:
        return _falls_behind(function, call)
    return function.start <= want.address <= call


def _with_entry(ground: Ground, function: Function, wants: list[Want], first: FunctionPlan) -> FunctionPlan:
    """By way of ftrace, where the plan has nothing better for an entry."""
    call = fentry(ground, function)
    entry = [want for want in wants if call and _is_entry(want, call, function)]
    if not entry or first.tactics.get(entry[0].key, Tactic.TRAP) is not Tactic.TRAP:
        return first
    planner.forget(ground, first)
    rest = [want for want in wants if want not in entry]
    (made,) = planner.plan(ground, [(function, rest)]).functions
    return _called(ground, function, entry, call, made)


def _called(ground: Ground, function: Function, entry: list[Want], call: int, made: FunctionPlan) -> FunctionPlan:
    """``made``, and a patch that ftrace calls."""
    builder = CodeBuilder()
    address = call + ground.bias
    live = ground.analysis.steps(function, function.blocks[0])[0].live
    builder.mark(address, True)
    emit_instruments(builder, ground.host, entry, live, address, RETURN_ADDRESS)
    builder.emit(asm.RET + asm.INT3)
    code = builder.finish()
    patch = ground.arena.allocate(len(code.data))
    return replace(
        made,
        patches=(*made.patches, Patch(patch, code.placed(patch, {}))),
        splices=(*made.splices, Splice(Tactic.FENTRY, patch, Site(address, b"", b""))),
        equivalences=(*made.equivalences, Equivalence(patch, address, True)),
        tactics={**made.tactics, **dict.fromkeys((want.key for want in entry), Tactic.FENTRY)},
        patched={**made.patched, **dict.fromkeys((want.key for want in entry), patch)},
    )

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Liveness across calls: callees are solved before their callers, each function once.

Summaries can be kept, and given to a later analysis of the same image, which then solves a function alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from iced_x86 import Instruction

from gilk.analysis.liveness import CONVENTIONAL, IMPORTED, UNKNOWN, Liveness, Summary, live_at_return
from gilk.analysis.model import Block, End, Function
from gilk.arch import decode as x86
from gilk.image.model import FunctionSpan, Image
from gilk.values import dataclass


@dataclass
class _Visit:
    """A function on the stack of the search, which is Tarjan's algorithm without recursion."""

    function: Function
    pending: list[int]
    number: int
    low: int


@dataclass(frozen=True, slots=True)
class Known:
    """The summary of a function. Functions of the same ``cycle`` call each other; its number is the start of one of
    them.
    """

    summary: Summary
    cycle: int


class Summaries:
    """The liveness of the functions of one image, on demand. ``known``: summaries from an earlier analysis, by the
    starts of the functions.
    """

    def __init__(
        self, image: Image, function: Callable[[FunctionSpan], Function], known: Mapping[int, Known] | None = None
    ) -> None:
        self._image = image
        self._function = function
        self._spans = {span.start: span for span in image.spans}
        self._solved: dict[int, Liveness] = {}
        self.known = dict(known or {})

    def of(self, function: Function) -> Liveness:
        """The liveness of ``function``; solves all functions that it calls first."""
        if function.start not in self._solved:
            if function.start in self.known:
                self._solved[function.start] = self._solve(function, self.known[function.start].cycle)
            else:
                self._search(function)
        return self._solved[function.start]

    def _callees(self, function: Function) -> list[int]:
        """The starts of the functions of this image that ``function`` calls or jumps to."""
        leads = {target for _, target in function.calls}
        leads.update(block.target for block in function.blocks if block.target)
        ours = self._spans.keys() & leads
        return sorted(ours - self._image.conventional - self._image.dispatchers)

    def _search(self, root: Function) -> None:
        """Solve the functions reached from ``root``, each strongly connected component once it is complete."""
        visits: dict[int, _Visit] = {}
        component: list[int] = []
        stack = [self._visit(root, visits, component)]
        while stack:
            visit = stack[-1]
            if not visit.pending:
                stack.pop()
                if stack:
                    stack[-1].low = min(stack[-1].low, visit.low)
                if visit.low == visit.number:
                    self._complete(component, visit, visits)
                continue
            callee = visit.pending.pop()
            if callee in visits:
                visit.low = min(visit.low, visits[callee].number)
            elif callee not in self.known:
                stack.append(self._visit(self._function(self._spans[callee]), visits, component))

    def _visit(self, function: Function, visits: dict[int, _Visit], component: list[int]) -> _Visit:
        number = len(visits) + len(self.known)
        visit = visits[function.start] = _Visit(function, self._callees(function), number, number)
        component.append(function.start)
        return visit

    def _complete(self, component: list[int], root: _Visit, visits: dict[int, _Visit]) -> None:
        """Solve the members of a component: each takes the others as unknown."""
        members: list[int] = []
        while not members or members[-1] != root.function.start:
            members.append(component.pop())
        for start in members:
            self._solved[start] = self._solve(visits[start].function, root.function.start)
        for start in members:
            self.known[start] = Known(self._solved[start].summary(), root.function.start)
            del visits[start]

    def _solve(self, function: Function, cycle: int) -> Liveness:
        span = self._spans[function.start]
        at_return = live_at_return(span.exported, function.start in self._image.conventional)
        return Liveness(function, at_return, partial(self._call, cycle), partial(self._outside, cycle))

    def _call(self, cycle: int, instruction: Instruction) -> Summary:
        if x86.is_direct_call(instruction):
            return self._at(instruction.near_branch_target, cycle)
        if instruction.is_ip_rel_memory_operand and instruction.ip_rel_memory_address in self._image.got:
            return IMPORTED
        return UNKNOWN

    def _outside(self, cycle: int, block: Block) -> Summary:
        return self._at(block.target, cycle) if block.how in (End.TAIL, End.FALL) else UNKNOWN

    def _at(self, address: int, cycle: int) -> Summary:
        """The summary of the function at ``address`` as a function of ``cycle`` sees it. Members of one cycle know
        nothing of each other, so that the order makes no difference.
        """
        if address in self._image.plt:
            return IMPORTED
        if address in self._image.conventional:
            return CONVENTIONAL
        known = self.known.get(address)
        return known.summary if known is not None and known.cycle != cycle else UNKNOWN

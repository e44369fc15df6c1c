# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes a plan of wants, function by function. It does no input or output: it reads an image and computes bytes.

Functions are planned from the highest address down, and puns within a function too, so that the bytes a pun shares with
the code behind it are settled when its displacement is chosen (the order of e9patch's tactics).

Some things cannot be known beforehand (whether a pun finds a page, whether code in a patch reaches what it refers to):
they are tried, and if that fails, the function is planned again without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from gilk import activity
from gilk.analysis.model import Function
from gilk.arch.asm import CALL_SIZE, JUMP_SIZE
from gilk.collector import without_collector
from gilk.splice import puns
from gilk.splice.allocator import OutOfSpace
from gilk.splice.code import PatchCode
from gilk.splice.frame import DIRECTION, RED_ZONE
from gilk.splice.function_layout import FunctionLayout
from gilk.splice.host import Host
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Equivalence, FunctionPlan, Patch, Plan, Refusal, Splice, Want, heeds_live
from gilk.splice.segments import Segment
from gilk.splice.tactics.table import rounds
from gilk.splice.tactics.tactic import Choice, Choices, Lead

_COUNTED = 64  # bytes of a patch besides the instructions that it displaces: a counter, and the way back
_new = tuple.__new__  # does what a NamedTuple's own constructor does, in a third of its time


def forget(context: PatchContext, old: FunctionPlan) -> None:
    """Release the bytes of a plan that is no longer in force, or about to be replaced, so that they may be planned
    again.
    """
    for site in old.sites:
        start = site.address - context.bias
        context.registry.release(start, start + len(site.new))
    for start, end in old.pinned:
        context.registry.unpin(start - context.bias, end - context.bias)


def plan(context: PatchContext, wanted: Iterable[tuple[Function, list[Want]]]) -> Plan:
    """Plans for all functions, from the highest address down; a want that cannot be met has a refusal in its function's
    plan.

    Raises OutOfSpace when the arena is full.
    """
    order = sorted(wanted, key=lambda item: -item[0].start)
    spare_tails(context, order)
    with without_collector():
        plans = tuple(
            _plan(context, function, wants) for function, wants in activity.told("planning", order, "functions")
        )
    return Plan(plans)


def spare_tails(context: PatchContext, wanted: Iterable[tuple[Function, list[Want]]]) -> None:
    """Reserve padding behind functions whose last bytes before the end are too few to be moved as a whole, so that
    plans made before those of ``wanted`` leave it to them. This is an estimate that does not look at instructions.
    """
    for function, wants in wanted:
        last = function.blocks[-1]
        start = max(last.start, _behind_calls(function, last.start))
        short = JUMP_SIZE - (last.end - start)
        if short > 0 and any(want.address >= start for want in wants):
            context.tails[last.end] = short


def _behind_calls(function: Function, start: int) -> int:
    """The end of the last call at or behind ``start``, if that call is direct; 0 if there is none."""
    site, target = function.calls[-1] if function.calls else (0, 0)
    return site + CALL_SIZE if site >= start and target else 0


def _plan(context: PatchContext, function: Function, wants: list[Want]) -> FunctionPlan:
    immovable: dict[int, str] = {}
    failed: Counter[int] = Counter()
    exact = heeds_live(wants)
    while True:
        trial = _Trial(context, function, immovable, failed, exact)
        if trial.run(wants):
            return trial.result()
        trial.undo()


def _host_of(context: PatchContext, function: Function) -> Host:
    """The host for a function. Goroutines begin with 2 KiB of stack, and a small function need not check for more, so C
    runs on the side stack there. Go code has no red zone, as it moves the stack pointer for all that it stores
    (cmd/internal/obj/x86).
    """
    image = context.analysis.image
    if not image.is_go:
        return context.host
    low, high = image.go_text
    return context.host.aside(0 if low <= function.start < high else RED_ZONE)


class _Trial:
    """One attempt to plan a function. The attempt adds its failures to ``immovable`` and ``failed`` (puns), for the
    next one.
    """

    def __init__(
        self, context: PatchContext, function: Function, immovable: dict[int, str], failed: Counter[int], exact: bool
    ) -> None:
        self._context = context
        self._function = function
        self._immovable = immovable
        self._failed = failed
        self._image, self._bias = context.analysis.image, context.bias
        self._layout = FunctionLayout(context, function, immovable, exact)
        self._choices = Choices(self._layout, failed, rounds(context.policy))
        self._leads: dict[int, Lead] = {}  # by the start of the splice
        self._splices: list[Splice] = []
        self._patches: list[Patch] = []
        self._equivalences: list[Equivalence] = []
        self._tactics: dict[int, str] = {}
        self._patched: dict[int, int] = {}
        self._refusals: dict[int, Refusal] = {}
        self._codes: list[PatchCode] = []
        host = _host_of(context, function)
        self._host = replace(host, assume_live=host.assume_live | DIRECTION) if function.turns else host
        self._mark = context.mark()

    def run(self, wants: list[Want]) -> bool:
        """Plan the wants; False if something that the plan relied on failed, so that another attempt is needed."""
        for want in self._layout.assign(wants):
            self._refusals[want.key] = Refusal.NO_CODE
        left = self._layout.wanted()
        for rows in self._choices.rounds:
            left = [segment for segment in left if not self._choices.splice(segment, rows)]
        for segment in left:
            reason = self._reason(segment)
            self._refusals.update((want.key, reason) for want in segment.wants)
        return self._realise(sorted(self._choices.made.values(), key=lambda choice: -choice.start))

    def undo(self) -> None:
        """Give back all bytes and memory that were claimed."""
        registry = self._context.registry
        for choice in self._choices.made.values():
            choice.release(registry)
        for lead in self._leads.values():
            if lead.shared:
                registry.unpin(lead.shared[0] - self._bias, lead.shared[1] - self._bias)
        self._context.reset(self._mark)

    def result(self) -> FunctionPlan:
        return FunctionPlan(
            self._function.name,
            tuple(self._splices),
            tuple(self._patches),
            tuple(self._equivalences),
            self._tactics,
            self._refusals,
            self._patched,
            tuple(self._codes),
        )

    def _reason(self, segment: Segment) -> Refusal:
        if self._layout.is_reserved(segment.start, segment.end):
            return self._layout.reserved_for(segment.start, segment.end)
        if segment.last >= segment.fast:
            return Refusal(segment.reason)
        if self._image.is_go:
            return Refusal.PREEMPTED
        if self._layout.strict:
            return Refusal.UNKNOWN_JUMPS
        if self._layout.entered_between(segment.start + 1, segment.start + JUMP_SIZE):
            return Refusal.OVERLAP
        return Refusal.NO_ROOM

    def _realise(self, choices: list[Choice]) -> bool:
        """Emit and place all patches, then make the jumps to them; puns come last, from the highest address down."""
        arena = self._context.arena
        placed: list[tuple[Choice, PatchCode, int]] = []
        for choice in choices:
            code = self._code(choice)
            placed.append((choice, code, arena.allocate(len(code.data))))
        for choice, _, address in placed:
            lead = self._leads[choice.start] = choice.tactic.lead(choice, address, self._context)
            for way in lead.ways:
                self._equivalences.append(Equivalence(way + self._bias, choice.start + self._bias, True))
        good = True
        for choice, _, address in sorted(placed, key=lambda item: -item[0].pun):
            if choice.pun and not self._pun(choice, address):
                self._failed[choice.pun] += 1
                good = False
        return good and self._write(placed)

    def _code(self, choice: Choice) -> PatchCode:
        if self._context.makes_code:
            return choice.tactic.code(choice, self._image, self._bias, self._host)
        heads = choice.segment.heads
        return PatchCode(bytes(heads[choice.last + 1] - heads[choice.first] + _COUNTED), (), ())

    def _pun(self, choice: Choice, patch: int) -> bool:
        context, at, start = self._context, choice.pun, choice.start + self._bias
        own = choice.own
        found = puns.find(context, self._function, at, own, far=choice.bounce > 0 or self._failed[at] > 0)
        if found is None:
            return False
        for place in found.trampolines:
            self._patches.append(Patch(place, puns.trampoline(context, place, patch)))
            self._equivalences.append(Equivalence(place, start, True))
        site = context.site(at, found.new)
        context.registry.pin(at + own, found.end)
        lead = self._leads[choice.start]
        self._leads[choice.start] = lead._replace(
            window=lead.window if choice.bounce else site,
            bounce=site if choice.bounce else None,
            shared=(site.end, found.end + self._bias),
            trampolines=found.trampolines,
        )
        return True

    def _write(self, placed: list[tuple[Choice, PatchCode, int]]) -> bool:
        """Place the code; a jump in a patch to a block that has a patch goes straight to that patch."""
        bias = self._bias
        if not self._context.makes_code:
            self._tactics = {want.key: choice.tactic.name for choice, _, _ in placed for want in choice.segment.wants}
            return True
        links = {choice.start + bias: address for choice, _, address in placed if choice.tactic.linked}
        good = True
        if self._context.keeps_code:
            self._codes += [code for _, code, _ in placed]
        for choice, code, address in placed:
            try:
                self._patches.append(Patch(address, code.placed(address, links)))
            except OverflowError:
                steps = range(choice.first, choice.last + 1)
                self._immovable.update((choice.segment.heads[i], Refusal.OUT_OF_REACH) for i in steps)
                good = False
                continue
            self._equivalences += [_new(Equivalence, (address + offset, a, before)) for offset, a, before in code.marks]
            self._splices.append(self._splice(choice, code, address))
            self._tactics.update((want.key, choice.tactic.name) for want in choice.segment.wants)
            self._patched.update((want.key, address) for want in choice.segment.wants)
        return good

    def _splice(self, choice: Choice, code: PatchCode, patch: int) -> Splice:
        bias = self._bias
        window, bounce, shared, trampolines, _ = self._leads[choice.start]
        displaced = tuple([head + bias for head in choice.segment.heads[choice.first : choice.last + 2]])
        copy = patch + next((offset for offset, _, before in code.marks if not before), -patch)
        host = choice.host.start + bias if choice.host else 0
        return _new(Splice, (choice.tactic.name, patch, window, displaced, copy, bounce, host, shared, trampolines))


__all__ = ["PatchContext", "OutOfSpace", "forget", "plan"]

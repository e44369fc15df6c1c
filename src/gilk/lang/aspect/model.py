# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model of aspects: plain Python that runs a list of events. docs/aspect/semantics.md describes the meaning in
English.

The steps of an event have this order. Instances that are too old end. Every aspect matches, in the order of weaving:
each of its open instances makes at most one transition, the oldest first, and then its first element is tried. Only
then advice runs: first that before, then that in place, nested, the first outermost, around what the program does. At a
return the aspect that was woven last comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gilk.errors import UsageError
from gilk.lang.aspect.automaton import Advising, Automaton, Element, Moment
from gilk.lang.aspect.cells import Cell, Value, integer, told
from gilk.lang.aspect.deeds import AspectTally, Deed, Did
from gilk.lang.aspect.evaluate import Effect, NotTold
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.fragments import expression
from gilk.lang.aspect.hits import CallFrame, Hit, told_values
from gilk.lang.aspect.instances import AdvisedMatch, AspectInstances, OpenInstance
from gilk.lang.aspect.nesting import Nest, Original, observe
from gilk.lang.aspect.printed import printed
from gilk.lang.aspect.threads import Groups, ModelCall, ModelThread, ModelThreads
from gilk.lang.d import ast
from gilk.lang.types import INT64


class AspectModel:
    """Aspects in the order in which they are woven. ``groups``: the pids or tids of the members, by group."""

    def __init__(self, automata: Sequence[Automaton], groups: Mapping[str, tuple[int, ...]] | None = None) -> None:
        self._deeds: list[Deed] = []
        self._groups, self._threads = Groups(groups or {}), ModelThreads()
        self._aspects = tuple(AspectInstances(one, self._placed, self._deeds.append) for one in automata)
        self.sums: dict[tuple[str, str], int] = {}  # by table and key

    def run(self, events: Iterable[AspectEvent]) -> tuple[tuple[Deed, ...], ...]:
        """The deeds of each event, in order. Raises UsageError event-lacks-value."""
        return tuple(map(self.step, events))

    def step(self, event: AspectEvent) -> tuple[Deed, ...]:
        """Run one event and return its deeds. Raises UsageError event-lacks-value if the event does not give a value
        that a condition or advice needs.
        """
        self._deeds.clear()
        try:
            for aspect in self._aspects:
                aspect.expire(event.at)
            _HAPPENING[event.kind](self, event)
        except NotTold as error:
            raise UsageError(
                "event-lacks-value",
                f"events, line {event.line}: {event.kind} does not say what `{error.text}` is",
                f'say it: "values": {{"{error.text}": ...}}',
            ) from error
        return tuple(self._deeds)

    def counts(self) -> dict[str, AspectTally]:
        return {one.automaton.name: one.tally() for one in self._aspects}

    def open(self, name: str) -> tuple[OpenInstance, ...]:
        """The open instances of an aspect, oldest first."""
        return tuple(each for one in self._aspects if one.automaton.name == name for each in one.open)

    def _placed(self, element: Element, event: AspectEvent) -> bool:
        return self._groups.has(element.places, event)

    # Events.

    def _call(self, event: AspectEvent) -> None:
        thread = self._threads.of(event)
        skipped = thread.skipping
        call = ModelCall(CallFrame(event.function, event.image, event.arguments), event, self._ready(event), skipped)
        thread.calls.append(call)
        if skipped:
            self._deeds.append(Deed(Did.SKIPPED, "", words=event.function))
            return
        hit = Hit(event, Moment.BEFORE, thread.frames, told_values(event), None, event.inside)
        call.nest = self._observed(hit, call.ready, lambda given: self._original(thread, call, given))
        value = call.nest.enter(event.arguments)
        if value is not None:
            call.replaced = True
            self._tell_value(value)

    def _original(self, thread: ModelThread, call: ModelCall, given: tuple[Value, ...]) -> Cell | None:
        """Begin the function itself with the arguments ``given``; further events tell what it does, so the result is
        None. If advice calls it again after it has returned, it returns the same value at once.
        """
        call.frame = CallFrame(call.frame.function, call.frame.image, given)
        if call.result is None:
            return None
        self._returned(thread, call, call.result)
        return _result(call.result)

    def _return(self, event: AspectEvent) -> None:
        thread = self._threads.of(event)
        left = thread.left_until(event.function, event.image)
        if not left:
            return
        *passed, call = left
        self._abandon(passed)
        if call.skipped or call.replaced:
            self._deeds.append(Deed(Did.SKIPPED, "", words=event.function))
            return
        hit = self._returned(thread, call, event)
        call.result = event
        if call.nest is not None and call.nest.suspended:
            value = call.nest.returned(_result(event), hit)
            assert value is not None
            self._tell_value(value)

    def _returned(self, thread: ModelThread, call: ModelCall, event: AspectEvent) -> Hit:
        """Have all aspects match at a return. Aspects that were off, or whose places did not fit, at the entry do not
        match.
        """
        values = told_values(call.event, event)
        inside = event.inside or call.event.inside
        hit = Hit(event, Moment.AFTER, (*thread.frames, call.frame), values, event.value, inside)
        now = self._ready(event)
        self._observed(hit, tuple(a & b for a, b in zip(call.ready or now, now, strict=True)), lambda given: None)
        return hit

    def _access(self, event: AspectEvent) -> None:
        thread, ready = self._threads.of(event), self._ready(event)
        what = event.variable or hex(event.address or 0)
        if thread.skipping:
            self._deeds.append(Deed(Did.SKIPPED, "", words=what))
            return
        hit = Hit(event, Moment.BEFORE, thread.frames, told_values(event), event.value, event.inside)
        took_place = False

        def original(given: tuple[Value, ...]) -> Cell | None:
            nonlocal took_place
            took_place = True
            value = given[0] if given else event.value
            self._observed(Hit(event, Moment.AFTER, hit.frames, hit.values, value, hit.inside), ready, lambda _: None)
            return integer(0, INT64) if value is None else told(value)

        nest = self._observed(hit, ready, original)
        value = nest.enter(() if event.value is None else (event.value,))
        if nest.matched and event.kind is EventKind.READ and value is not None:
            self._tell_value(value)
        elif not took_place:
            self._deeds.append(Deed(Did.SKIPPED, "", words=what))

    def _unwind(self, event: AspectEvent) -> None:
        self._abandon(self._threads.of(event).left(event.number))

    def _exit(self, event: AspectEvent) -> None:
        tid = None if event.word == "process" else event.tid
        if tid is not None and tid != event.pid:
            self._groups.forget(tid)
        for thread in self._threads.ended(event.pid, tid):
            self._abandon(thread.left(len(thread.calls)))
        for aspect in self._aspects:
            aspect.bereave(event.pid, tid)

    def _fork(self, event: AspectEvent) -> None:
        self._threads.fork(event, event.number)
        self._groups.fork(event.pid, event.number)

    def _join(self, event: AspectEvent) -> None:
        self._groups.join(event.word, event.pid)

    def _leave(self, event: AspectEvent) -> None:
        self._groups.leave(event.word, event.pid)

    def _turn(self, event: AspectEvent) -> None:
        self._set_on(event.word, event.kind is EventKind.ON)

    def _regroup(self, event: AspectEvent) -> None:
        self._groups = Groups(dict(event.members))

    # Matching.

    def _ready(self, event: AspectEvent) -> tuple[frozenset[int], ...]:
        return tuple(one.ready(event) for one in self._aspects)

    def _observed(self, hit: Hit, ready: tuple[frozenset[int], ...], original: Original) -> Nest:
        """Have all aspects match and run the advice that is not in place; return the advice in place, nested around
        ``original``.
        """
        both = zip(self._aspects, ready, strict=True)
        found = [one for aspect, numbers in both for one in aspect.transitions(hit, numbers)]
        observers = [one for one in found if one.advice.when is not Advising.INPLACE]
        for matched in reversed(observers) if hit.moment is Moment.AFTER else observers:
            observe(matched, self._effect, self._tell)
        replacing = (one for one in found if one.advice.when is Advising.INPLACE)
        return Nest(tuple(replacing), self._effect, original, self._tell)

    def _abandon(self, calls: Iterable[ModelCall]) -> None:
        """Count the advice that waits in ``calls``, which are left without returning: it never goes on."""
        for call in calls:
            for matched in reversed(call.nest.suspended if call.nest is not None else ()):
                aspect = next(one for one in self._aspects if one.automaton is matched.automaton)
                aspect.note(Did.ABANDONED, matched.instance, matched.element)

    # Advice.

    def _effect(self, matched: AdvisedMatch, effect: Effect) -> Cell:
        """Carry out an effect of advice, and return its value."""
        cells, texts = effect.arguments, effect.texts
        match effect.name:
            case "report":
                words = printed(str(cells[0].value), cells[1:]) if cells else ""
                self._tell(matched, Did.REPORTS, words)
            case "add":
                self._add(matched, texts[0] if texts else "", cells)
            case "deny":
                self._tell(matched, Did.DENIES, ", ".join(texts))
                return integer(-1)
            case "join" | "leave":
                self._regrouped(matched, effect)
            case "aspect_on" | "aspect_off":
                on = effect.name == "aspect_on"
                self._tell(matched, Did.TURNS_ON if on else Did.TURNS_OFF, _named(texts))
                self._set_on(_named(texts), on)
            case _:
                self._tell(matched, Did.CALLS, f"{effect.name}({', '.join(texts)})")
        return integer(0)

    def _regrouped(self, matched: AdvisedMatch, effect: Effect) -> None:
        number = effect.arguments[0].value if effect.arguments else 0
        join = effect.name == "join"
        group = _named(effect.texts)
        self._tell(matched, Did.JOINS if join else Did.LEAVES, f"{group} {number}")
        if isinstance(number, int):
            (self._groups.join if join else self._groups.leave)(group, number)

    def _add(self, matched: AdvisedMatch, table: str, cells: tuple[Cell, ...]) -> None:
        *keys, amount = (cell.value for cell in cells) if cells else (0,)
        key = ", ".join(map(str, keys))
        self._tell(matched, Did.ADDS, f"{table}[{key}] {amount}")
        if isinstance(amount, int):
            self.sums[table, key] = self.sums.get((table, key), 0) + amount

    def _set_on(self, name: str, on: bool) -> None:
        for aspect in self._aspects:
            if aspect.automaton.name == name:
                aspect.on = on

    def _tell(self, matched: AdvisedMatch, did: Did, words: str) -> None:
        self._deeds.append(Deed(did, matched.automaton.name, matched.instance, matched.element, words))

    def _tell_value(self, value: Cell) -> None:
        self._deeds.append(Deed(Did.RETURNS, "", words=str(value.value)))


def _result(event: AspectEvent) -> Cell:
    return integer(0, INT64) if event.value is None else told(event.value)


def _named(texts: tuple[str, ...]) -> str:
    """The name of a group or an aspect in an argument of advice, where it may be in quotes."""
    found = expression(texts[0]) if texts else None
    return found.value if isinstance(found, ast.Text) else texts[0] if texts else ""


_HAPPENING: Mapping[EventKind, Callable[[AspectModel, AspectEvent], None]] = {
    EventKind.CALL: AspectModel._call,
    EventKind.RETURN: AspectModel._return,
    EventKind.READ: AspectModel._access,
    EventKind.WRITE: AspectModel._access,
    EventKind.UNWIND: AspectModel._unwind,
    EventKind.FORK: AspectModel._fork,
    EventKind.EXIT: AspectModel._exit,
    EventKind.JOIN: AspectModel._join,
    EventKind.LEAVE: AspectModel._leave,
    EventKind.ON: AspectModel._turn,
    EventKind.OFF: AspectModel._turn,
    EventKind.GROUPS: AspectModel._regroup,
}

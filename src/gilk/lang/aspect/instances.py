# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instances of one aspect in the model: how they begin, move and end. matching.py does conditions and binds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field

from gilk.lang.aspect.automaton import AdviceCode, Automaton, Element, Sharing
from gilk.lang.aspect.cells import Cell, Value, converted
from gilk.lang.aspect.deeds import ENDS, AspectTally, Deed, Did
from gilk.lang.aspect.evaluate import compute
from gilk.lang.aspect.events import AspectEvent
from gilk.lang.aspect.fragments import ctype
from gilk.lang.aspect.hits import Hit, HitScope
from gilk.lang.aspect.matching import match, touches
from gilk.values import dataclass

#: Whether an event takes place where an element may match; the model answers this, because it keeps the groups.
Placing = Callable[[Element, AspectEvent], bool]


@dataclass(eq=False)
class OpenInstance:
    """An instance that is open. ``bound``: the names that elements other than repeated ones have bound. ``words``: the
    words, which advice may write. ``over``: the instance has ended.
    """

    number: int
    position: int
    since: int
    pid: int
    tid: int
    bound: dict[str, Cell]
    words: dict[str, Cell] = field(default_factory=dict)
    over: bool = False


@dataclass(frozen=True, slots=True)
class AdvisedMatch:
    """A match of an element that has advice. ``bound`` and ``words`` are copies for that advice; ``of`` is the
    instance.
    """

    automaton: Automaton
    instance: int
    element: int
    advice: AdviceCode
    hit: Hit
    bound: dict[str, Cell]
    words: dict[str, Cell]
    of: OpenInstance

    def commit(self) -> None:
        """Copy the words that the advice has written to the instance, unless that has ended."""
        if not self.of.over:
            self.of.words = dict(self.words)

    def fetch(self) -> None:
        """Take over the words that other advice has written to the instance meanwhile."""
        if not self.of.over:
            self.words.update(self.of.words)


class AspectInstances:
    """The open instances and the counts of one aspect. ``on``: the aspect is switched on; while it is off, nothing
    matches and open instances stay open.
    """

    def __init__(self, automaton: Automaton, placed: Placing, tell: Callable[[Deed], None]) -> None:
        self.automaton, self.on = automaton, True
        self.open: list[OpenInstance] = []  # oldest first
        self.counted: Counter[Did] = Counter()
        self._matches = [0] * len(automaton.elements)
        self._placed, self._tell = placed, tell
        self._ready: frozenset[int] = frozenset()

    def tally(self) -> AspectTally:
        counted = {did.value: self.counted[did] for did in (*ENDS, Did.LOST, Did.INSIDE, Did.ABANDONED)}
        return AspectTally(tuple(self._matches), self.counted[Did.BEGAN], len(self.open), **counted)

    def expire(self, now: int) -> None:
        """End the instances that are older than the aspect's limit."""
        if self.automaton.within is not None:
            self._end_all(Did.LATE, lambda one: now - one.since > (self.automaton.within or 0))

    def bereave(self, pid: int, tid: int | None) -> None:
        """End the instances that only the given thread, or the given process if ``tid`` is None, could continue; it has
        ended.
        """
        by_thread = self.automaton.sharing is Sharing.THREAD
        if by_thread or (self.automaton.sharing is Sharing.PROCESS and tid is None):
            self._end_all(Did.GONE, lambda one: one.pid == pid and (tid is None or one.tid == tid))

    def note(self, did: Did, instance: int | None = None, element: int | None = None, words: str = "") -> None:
        self.counted[did] += 1
        self._tell(Deed(did, self.automaton.name, instance, element, words))

    def _happened_inside(self, hit: Hit) -> None:
        """Count an event that would match if the thread were not in advice of the same file; it matches nothing."""
        elements = (*self.automaton.elements, *self.automaton.until)
        if any(touches(elements[number], hit) for number in self._ready):
            self.note(Did.INSIDE)

    def ready(self, event: AspectEvent) -> frozenset[int]:
        """The numbers of the elements that may match ``event`` now, at its place; elements of ``until`` are numbered
        after the others.
        """
        every = (*self.automaton.elements, *self.automaton.until)
        return frozenset(n for n, one in enumerate(every) if self.on and self._placed(one, event))

    def transitions(self, hit: Hit, ready: frozenset[int]) -> Iterator[AdvisedMatch]:
        """Move the instances at this moment and yield the matches that have advice: at most one for each open instance,
        the oldest first, then that of a new instance. Raises NotTold.

        ``ready``: the elements that may match; at a return these are only elements that were ready at the entry too.
        """
        self._ready = ready
        if hit.inside in ("*", self.automaton.file) and hit.inside:
            self._happened_inside(hit)
            return
        for instance in tuple(self.open):
            if self._may_continue(instance, hit.event):
                yield from self._continued(instance, hit)
        yield from self._begun(hit)

    def _may_continue(self, instance: OpenInstance, event: AspectEvent) -> bool:
        match self.automaton.sharing:
            case Sharing.THREAD:
                return (instance.pid, instance.tid) == (event.pid, event.tid)
            case Sharing.PROCESS:
                return instance.pid == event.pid
        return True

    def _match(self, number: int, hit: Hit, instance: OpenInstance) -> dict[str, Cell] | None:
        if number not in self._ready:
            return None
        elements = self.automaton.elements
        element = elements[number] if number < len(elements) else self.automaton.until[number - len(elements)]
        return match(element, hit, instance.bound, instance.words)

    def _continued(self, instance: OpenInstance, hit: Hit) -> Iterator[AdvisedMatch]:
        for number in self.automaton.active(instance.position):
            found = self._match(number, hit, instance)
            if found is not None:
                self._move(instance, number, found)
                yield from self._advised(instance, number, hit, found)
                return
        for number in range(len(self.automaton.until)):
            if self._match(len(self.automaton.elements) + number, hit, instance) is not None:
                self._end(instance, Did.UNTIL)
                return

    def _begun(self, hit: Hit) -> Iterator[AdvisedMatch]:
        event, single = hit.event, self.automaton.after(0) is None
        number = self.counted[Did.BEGAN] + 1
        instance = OpenInstance(number, 0, event.at, event.pid, event.tid, {})
        found = self._match(0, hit, instance)
        if found is None:
            return
        instance.bound = found
        self._replace(instance)
        if not single and len(self.open) >= self.automaton.instances:
            self.note(Did.LOST, element=0)
            return
        for word in self.automaton.words:
            first = compute(word.initial, HitScope(hit, found, {}))
            instance.words[word.name.name] = converted(first, ctype(word.name.ctype))
        self.open.append(instance)
        self.note(Did.BEGAN, number, 0)
        self._move(instance, 0, found)
        yield from self._advised(instance, 0, hit, found)

    def _replace(self, new: OpenInstance) -> None:
        """End the instances that ``new`` replaces: those with equal unique names that the same threads may continue."""
        names = self.automaton.unique
        if names is None:
            return
        for old in tuple(self.open):
            if self._shares(old, new) and _key(old, names) == _key(new, names):
                self._end(old, Did.REPLACED)

    def _shares(self, one: OpenInstance, other: OpenInstance) -> bool:
        """Whether the threads that may continue ``one`` are those that may continue ``other``."""
        match self.automaton.sharing:
            case Sharing.THREAD:
                return (one.pid, one.tid) == (other.pid, other.tid)
            case Sharing.PROCESS:
                return one.pid == other.pid
        return True

    def _move(self, instance: OpenInstance, number: int, found: dict[str, Cell]) -> None:
        """Count the match, keep the names that it bound unless the element is repeated, and move or end the
        instance.
        """
        self._matches[number] += 1
        if number:
            self._tell(Deed(Did.MOVED, self.automaton.name, instance.number, number))
        if not self.automaton.elements[number].star:
            instance.bound = found
        target = self.automaton.after(number)
        if target is None:
            self._end(instance, Did.ENDED)
        else:
            instance.position = target

    def _advised(self, instance: OpenInstance, number: int, hit: Hit, found: dict[str, Cell]) -> Iterator[AdvisedMatch]:
        advice = self.automaton.elements[number].advice
        if advice is not None:
            words = dict(instance.words)
            yield AdvisedMatch(self.automaton, instance.number, number, advice, hit, dict(found), words, instance)

    def _end(self, instance: OpenInstance, how: Did) -> None:
        self.open.remove(instance)
        instance.over = True
        self.note(how, instance.number)

    def _end_all(self, how: Did, which: Callable[[OpenInstance], bool]) -> None:
        for one in tuple(self.open):
            if which(one):
                self._end(one, how)


def _key(instance: OpenInstance, names: tuple[str, ...]) -> list[Value]:
    return [instance.bound[name].value for name in names if name in instance.bound]

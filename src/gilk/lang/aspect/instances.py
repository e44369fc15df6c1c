# SPDX-License-Identifier: LGPL-2.1-or-later
"""The instances of one aspect: how they begin, move and end. Conditions and binds are those of matching.py."""

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

#: Whether an element is about where an event takes place: groups are the model's.
Placing = Callable[[Element, AspectEvent], bool]


@dataclass(eq=False)
class OpenInstance:
    """``bound`` is what elements other than repeated ones have bound; ``words`` are what advice may write. ``over``: it
    has ended.
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
    """A match of an element that has advice. ``bound`` and ``words`` are copies, for the advice of ``of``."""

    automaton: Automaton
    instance: int
    element: int
    advice: AdviceCode
    hit: Hit
    bound: dict[str, Cell]
    words: dict[str, Cell]
    of: OpenInstance

    def commit(self) -> None:
        """Give the instance what advice has written to its words."""
        if not self.of.over:
            self.of.words = dict(self.words)

    def fetch(self) -> None:
        """Take what others have written to them meanwhile."""
        if not self.of.over:
            self.words.update(self.of.words)


class AspectInstances:
    """``on``: whether events match; what is open stays open while none does."""

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
        """End those that are older than the aspect's limit."""
        if self.automaton.within is not None:
            self._end_all(Did.LATE, lambda one: now - one.since > (self.automaton.within or 0))

    def bereave(self, pid: int, tid: int | None) -> None:
        """End those that only a thread that is gone, or a process if ``tid`` is None, could continue."""
        by_thread = self.automaton.sharing is Sharing.THREAD
        if by_thread or (self.automaton.sharing is Sharing.PROCESS and tid is None):
            self._end_all(Did.GONE, lambda one: one.pid == pid and (tid is None or one.tid == tid))

    def note(self, did: Did, instance: int | None = None, element: int | None = None, words: str = "") -> None:
        self.counted[did] += 1
        self._tell(Deed(did, self.automaton.name, instance, element, words))

    def _happened_inside(self, hit: Hit) -> None:
        """A thread in advice of the file comes by: nothing matches, and that is counted."""
        elements = (*self.automaton.elements, *self.automaton.until)
        if any(touches(elements[number], hit) for number in self._ready):
            self.note(Did.INSIDE)

    def ready(self, event: AspectEvent) -> frozenset[int]:
        """The numbers of elements, those of ``until`` behind the others, that match at all now, where this happens."""
        every = (*self.automaton.elements, *self.automaton.until)
        return frozenset(n for n, one in enumerate(every) if self.on and self._placed(one, event))

    def transitions(self, hit: Hit, ready: frozenset[int]) -> Iterator[AdvisedMatch]:
        """One at most for each open instance, the oldest first; then the beginning of another. Raises NotTold.

        ``ready``: elements that may match. A call is at its return what it was at its entry.
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
        """End the one whose place it takes: of equal names, within what shares instances."""
        names = self.automaton.unique
        if names is None:
            return
        for old in tuple(self.open):
            if self._shares(old, new) and _key(old, names) == _key(new, names):
                self._end(old, Did.REPLACED)

    def _shares(self, one: OpenInstance, other: OpenInstance) -> bool:
        """Whether what may continue one may continue the other."""
        match self.automaton.sharing:
            case Sharing.THREAD:
                return (one.pid, one.tid) == (other.pid, other.tid)
            case Sharing.PROCESS:
                return one.pid == other.pid
        return True

    def _move(self, instance: OpenInstance, number: int, found: dict[str, Cell]) -> None:
        """Count the match, keep what it bound unless the element is repeated, and go on or end."""
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

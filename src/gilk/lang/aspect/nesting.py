# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model's advice around one call or access: advice in place nests, the first outermost, around what the program
does itself.

Advice that calls ``proceed`` waits until that returns. For a call of the program this takes further events; for an
access it takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gilk.lang.aspect.advice import Advised, LocalScope, run
from gilk.lang.aspect.cells import Cell, Value, integer
from gilk.lang.aspect.deeds import Did
from gilk.lang.aspect.evaluate import Effect, NotTold
from gilk.lang.aspect.fragments import block
from gilk.lang.aspect.hits import Hit, HitScope
from gilk.lang.aspect.instances import AdvisedMatch
from gilk.lang.types import INT64
from gilk.values import dataclass

#: Carries out an effect other than ``proceed``, and returns its value.
Effecting = Callable[[AdvisedMatch, Effect], Cell]
#: Records a deed of advice.
Telling = Callable[[AdvisedMatch, Did, str], None]
#: Runs the original call or access with these arguments; returns its value, or None if events will tell what it does.
Original = Callable[[tuple[Value, ...]], Cell | None]


@dataclass
class _Level:
    """Advice in place that has begun. ``came``: the arguments with which it was called; ``waiting``: it waits in
    ``proceed``.
    """

    matched: AdvisedMatch
    scope: HitScope
    code: Advised
    came: tuple[Value, ...]
    waiting: bool = False


class Nest:
    """The advice in place at one call or access."""

    def __init__(self, matched: Sequence[AdvisedMatch], effect: Effecting, original: Original, tell: Telling) -> None:
        self.matched = tuple(matched)
        self._effect, self._original, self._tell = effect, original, tell
        self._levels: list[_Level] = []

    @property
    def suspended(self) -> tuple[AdvisedMatch, ...]:
        """The matches whose advice waits in ``proceed``, outermost first."""
        return tuple(level.matched for level in self._levels if level.waiting)

    def enter(self, came: tuple[Value, ...]) -> Cell | None:
        """Begin the advice. Returns the value of the outermost advice, or None if the original has begun and further
        events decide.
        """
        return self._enter(0, came)

    def returned(self, value: Cell, hit: Hit) -> Cell | None:
        """Go on after the original has returned ``value``. Returns the value of the outermost advice, or None if the
        original runs again.
        """
        found: Cell | None = value
        for number in reversed(range(len(self._levels))):
            level = self._levels[number]
            level.waiting, level.scope.hit = False, hit
            level.matched.fetch()
            found = self._go(number, found)
            if found is None:
                return None
        return found

    def _enter(self, number: int, came: tuple[Value, ...]) -> Cell | None:
        if number == len(self.matched):
            return self._original(came)
        matched = self.matched[number]
        self._tell(matched, Did.ADVICE, matched.advice.when)
        matched.fetch()
        scope = advice_scope(matched, self._tell)
        self._levels[number:] = [_Level(matched, scope, begun(matched, scope), came)]
        return self._go(number, None)

    def _go(self, number: int, answer: Cell | None) -> Cell | None:
        level = self._levels[number]
        while True:
            try:
                effect = next(level.code) if answer is None else level.code.send(answer)
            except StopIteration as end:
                del self._levels[number:]
                level.matched.commit()
                found: Cell | None = end.value
                return integer(0, INT64) if found is None else found
            if effect.name != "proceed":
                answer = self._effect(level.matched, effect)
                continue
            level.waiting = True
            given = tuple(cell.value for cell in effect.arguments) or level.came
            self._tell(level.matched, Did.PROCEEDS, ", ".join(map(str, given)))
            level.matched.commit()
            answer = self._enter(number + 1, given)
            if answer is None:
                return None
            level.waiting = False
            level.matched.fetch()


def begun(matched: AdvisedMatch, scope: HitScope) -> Advised:
    """The advice of a match, ready to run. Advice that the model cannot read proceeds, if its text has that word, and
    returns the value of that.
    """
    body = block(matched.advice.text)
    return _unread(matched, scope) if body is None else run(body, LocalScope(scope))


def _unread(matched: AdvisedMatch, scope: HitScope) -> Advised:
    if "proceed" in matched.advice.text:
        return (yield Effect("proceed", (), ()))
    return scope.told("return")


def advice_scope(matched: AdvisedMatch, tell: Telling) -> HitScope:
    """The scope of advice; it records a deed for each write to a word of the instance."""
    return HitScope(
        matched.hit,
        matched.bound,
        matched.words,
        lambda name, cell: tell(matched, Did.SETS, f"{name} = {cell.value}"),
    )


def observe(matched: AdvisedMatch, effect: Effecting, tell: Telling) -> None:
    """Run advice before or after a call or access to its end. Raises NotTold."""
    tell(matched, Did.ADVICE, matched.advice.when)
    scope = advice_scope(matched, tell)
    code = begun(matched, scope)
    answer: Cell | None = None
    while True:
        try:
            asked = next(code) if answer is None else code.send(answer)
        except StopIteration:
            matched.commit()
            return
        if asked.name == "proceed":
            raise NotTold("proceed() in advice that is not in place")
        answer = effect(matched, asked)

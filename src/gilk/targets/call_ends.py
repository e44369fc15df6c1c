# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places where calls of functions end: returns of the function itself, and where it ends in a jump to another
function (a tail call), the returns of that one.

A jump that leads to a place which is not known is *lost*: the call is said to end there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

from gilk.analysis.model import Block, End, Function
from gilk.errors import UsageError
from gilk.splice import points
from gilk.splice.points import Point
from gilk.targets.base import Code, Loaded
from gilk.targets.tails import Jump, Peek, jumps, target
from gilk.values import dataclass

MOST = 1024  # functions in which a call may end
_FIXED = "__SCT__"  # static calls: the kernel changes where these jump to


class SiteRole(IntEnum):
    """The purpose of a place, so that a probe fires when calls are over (native/abi/ilk_d_abi.h, CALLS): the probe
    fires; it fires, and what was noted about the call is dropped; the call is noted, since it goes on in another
    function; the probes of noted calls fire; a function is entered; a jump leads to an entry; it does not."""

    FIRES = 0
    RETURNS = 1
    LEAVES = 2
    ENDS = 3
    ENTERS = 4
    PASSES = 5
    STAYS = 6


#: Roles that come before all else at a place: a jump there is the next one.
COME_FIRST = frozenset((SiteRole.ENTERS, SiteRole.STAYS))
#: Roles that a place has once, for the calls of all probes.
STEPS = COME_FIRST | {SiteRole.ENDS, SiteRole.PASSES}


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A point in a part of a function."""

    loaded: Loaded
    part: Function
    point: Point

    @property
    def block(self) -> Block:
        """The block that has the point."""
        found = self.part.block_at(self.point.address)
        assert found is not None, self.point
        return found


@dataclass(frozen=True)
class CallEnds:
    """Where the calls of one function end.

    ``returns``: its own. ``jumps``: those by which it goes on in another function; the call then ends at one of
    ``elsewhere``, which are returns of other functions and their lost jumps. ``lost``: its own lost jumps, and ``why``
    they are lost, in the same order; ``why_elsewhere``: the same for those of the others. ``comes_back``: others jump
    to its entry. ``rounds``: after one of ``jumps`` the function may still come to a return of its own. ``between``:
    jumps of the other functions to one another, and of all to their own beginning. ``entries``: where all of them
    begin, itself included. ``stays``: where functions go on if a conditional jump is not taken.
    """

    returns: tuple[CodePlace, ...]
    jumps: tuple[CodePlace, ...] = ()
    elsewhere: tuple[CodePlace, ...] = ()
    lost: tuple[CodePlace, ...] = ()
    why: tuple[str, ...] = ()
    why_elsewhere: tuple[str, ...] = ()
    comes_back: bool = False
    rounds: bool = False
    between: tuple[CodePlace, ...] = ()
    entries: tuple[CodePlace, ...] = ()
    stays: tuple[CodePlace, ...] = ()

    def steps(self, left: bool) -> Iterator[tuple[SiteRole, CodePlace]]:
        """All places, with what is done at each. ``left``: a call may be left without a return, by longjmp or an
        exception; what was noted about it must not be taken for another's."""
        own = SiteRole.RETURNS if self.rounds else SiteRole.FIRES
        yield from ((own, place) for place in self.returns)
        yield from ((SiteRole.FIRES, place) for place in self.lost)
        yield from ((SiteRole.LEAVES, place) for place in self.jumps)
        yield from ((SiteRole.ENDS, place) for place in self.elsewhere)
        if left:
            yield from ((SiteRole.ENTERS, place) for place in self.entries)
            yield from ((SiteRole.PASSES, place) for place in self.between)
            yield from ((SiteRole.STAYS, place) for place in self.stays)


@dataclass(frozen=True)
class _Ways:
    """A function with its jumps: those that lead to ``targets``, in the same order, those to its own beginning, and
    those that are lost. ``opaque``: the reason why its calls may end where nobody sees it, "" if they do not."""

    loaded: Loaded
    function: Function
    followed: tuple[Jump, ...]
    targets: tuple[tuple[Loaded, Function], ...]
    again: tuple[Jump, ...]
    lost: tuple[Jump, ...]
    opaque: str = ""

    @property
    def why(self) -> tuple[str, ...]:
        return tuple(jump.lost for jump in self.lost)


class CallEndFinder:
    """Finds where calls end in one process or kernel; what it has found about a function it keeps. ``peek`` reads
    memory of the target; without it, jumps through slots of the global offset table are lost."""

    def __init__(self, code: Code, peek: Peek | None = None) -> None:
        self._code, self._peek = code, peek
        self._images = code.loaded()
        self._ways: dict[tuple[int, int], _Ways] = {}

    def of(self, loaded: Loaded, function: Function) -> CallEnds:
        """The ends of calls of ``function``, which is no part of another."""
        first, *others = self._reached(loaded, function)
        if not first.followed:
            return CallEnds(self._returns(first), lost=self._lost(first), why=first.why)
        comes_back = any(one[1].start == function.start and one[0] == loaded for each in others for one in each.targets)
        return CallEnds(
            returns=self._returns(first),
            jumps=self._places(first, first.followed),
            elsewhere=tuple(place for each in others for place in (*self._returns(each), *self._lost(each))),
            lost=self._lost(first),
            why=first.why,
            why_elsewhere=tuple(why for each in others for why in each.why),
            comes_back=comes_back,
            rounds=comes_back or any(jump.block.how is End.BRANCH for jump in first.followed),
            between=(
                *self._places(first, first.again),
                *(place for each in others for place in self._places(each, (*each.followed, *each.again))),
            ),
            entries=tuple(self._entry(each) for each in (first, *others)),
            stays=tuple(place for each in (first, *others) for place in self._stays(each)),
        )

    def _reached(self, loaded: Loaded, function: Function) -> list[_Ways]:
        """The function, and those that its jumps lead on to. If these are too many, its jumps are lost."""
        todo = [self._seen(self._of(loaded, function))]
        known = {(loaded.bias, function.start)}
        for each in todo:
            for where, other in each.targets:
                if (where.bias, other.start) not in known:
                    known.add((where.bias, other.start))
                    todo.append(self._seen(self._of(where, other)))
            if len(todo) > MOST:
                return [_all_lost(todo[0], f"{function.name} ends in jumps that lead on to more than {MOST} functions")]
        return todo

    def _seen(self, of: _Ways) -> _Ways:
        """The same, in which jumps to functions that are opaque are lost."""
        opaque = [self._opaque(*to) for to in of.targets]
        if not any(opaque):
            return of
        rows = list(zip(of.followed, of.targets, opaque, strict=True))
        gone = (_lost(jump, why) for jump, _, why in rows if why)
        kept = [(jump, to) for jump, to, why in rows if not why]
        lost = (*of.lost, *(jump for jump in gone if jump.leaves))
        return replace(of, followed=tuple(jump for jump, _ in kept), targets=tuple(to for _, to in kept), lost=lost)

    def _opaque(self, loaded: Loaded, function: Function, seen: frozenset[int] = frozenset()) -> str:
        """The reason why calls of the function may end where nobody sees it: in it, or behind a conditional jump."""
        ways = self._of(loaded, function)
        branches = (to for jump, to in zip(ways.followed, ways.targets, strict=True) if not jump.leaves)
        seen |= {id(ways)}
        further = (self._opaque(*to, seen) for to in branches if id(self._of(*to)) not in seen)
        return ways.opaque or next(filter(None, further), "")

    def _of(self, loaded: Loaded, function: Function) -> _Ways:
        key = loaded.bias, function.start
        if key not in self._ways:
            self._ways[key] = self._resolved(loaded, function)
        return self._ways[key]

    def _resolved(self, loaded: Loaded, function: Function) -> _Ways:
        followed, targets, again, lost = [], [], [], []
        for jump in jumps(self._code, loaded, function):
            if not jump.lost and not jump.slot and jump.to == function.start:
                again.append(jump)
                continue
            try:
                to = target(self._code, self._images, loaded, jump, self._peek) if not jump.lost else None
            except UsageError as error:
                jump, to = replace(jump, lost=error.message), None
            if to is not None:
                followed.append(jump)
                targets.append(to)
            else:
                lost.append(jump)
        unseen = [jump.lost for jump in lost if not jump.leaves]
        if function.name.startswith(_FIXED) or not function.blocks:
            unseen.append(f"the kernel changes where {function.name} leads to")
        leaving = tuple(jump for jump in lost if jump.leaves)
        return _Ways(loaded, function, tuple(followed), tuple(targets), tuple(again), leaving, "; ".join(unseen[:1]))

    def _returns(self, of: _Ways) -> tuple[CodePlace, ...]:
        image, analysis = self._code.image(of.loaded.path), self._code.analysis(of.loaded)
        found = points.returns(image, analysis, of.function, points.RETURNS)
        return tuple(CodePlace(of.loaded, part, point) for part, point in found)

    def _lost(self, of: _Ways) -> tuple[CodePlace, ...]:
        return self._places(of, of.lost)

    def _places(self, of: _Ways, found: tuple[Jump, ...]) -> tuple[CodePlace, ...]:
        analysis, name = self._code.analysis(of.loaded), of.loaded.name
        return tuple(
            CodePlace(of.loaded, each.part, points.post(name, analysis, each.part, each.block)) for each in found
        )

    def _stays(self, of: _Ways) -> tuple[CodePlace, ...]:
        found = (
            (each.part, each.part.block_at(each.block.end))
            for each in (*of.followed, *of.again)
            if each.block.how is End.BRANCH
        )
        name = of.loaded.name
        return tuple(CodePlace(of.loaded, part, points.pre(name, part, block)) for part, block in found if block)

    def _entry(self, of: _Ways) -> CodePlace:
        return CodePlace(of.loaded, of.function, points.entry(of.loaded.name, of.function))


def _lost(jump: Jump, why: str) -> Jump:
    return replace(jump, lost=f"{jump.where} is a jump to a function whose calls may end anywhere: {why}")


def _all_lost(of: _Ways, why: str) -> _Ways:
    gone = tuple(replace(jump, lost=why) for jump in of.followed if jump.leaves)
    return replace(of, followed=(), targets=(), lost=(*gone, *of.lost))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Dry runs: the places of a process at which aspects would be woven, and the threads that are there now. The process
is not changed; its threads are stopped for a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gilk.engines.aspect.access_shadows import AccessShadow
from gilk.engines.aspect.inlined_copies import ShadowCopies, copies_of, left_out
from gilk.engines.aspect.only_inlined import OnlyInlined
from gilk.engines.aspect.planned import Planned, planned, refusal, tactics
from gilk.engines.aspect.shadows import Shadow
from gilk.engines.aspect.standing import stacks
from gilk.engines.aspect.trapped_shadows import TrappedVariable
from gilk.errors import TargetError, UsageError
from gilk.lang.aspect.code.meeting import MetElement, asks_threads, verifies, walked_for
from gilk.lang.aspect.woven import DryShadow, WovenElement
from gilk.session.advising import (
    Advice,
    AdvisedAccess,
    AdvisedCopy,
    AdvisedPoint,
    TrappedMemory,
    check_process,
    wanted,
)
from gilk.session.request import Wanted
from gilk.splice.advice import ReachedEntry
from gilk.targets.process import Process
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class _Calls:
    """A function with its advice, and the points that this needs, without those at ``copies``. ``why``: the reason why
    it cannot be had, or ""."""

    shadow: Shadow
    advice: Advice
    points: tuple[AdvisedPoint, ...]
    why: str
    copies: tuple[AdvisedCopy, ...] = ()
    copies_named: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[Wanted]:
        at_copies = (point.wanted for each in self.copies for point in each.points)
        return [*(each.wanted for each in self.points), *at_copies]


#: An access and its advice; accesses that are told together have equal keys: image, function, elements.
_Access = tuple[AccessShadow, AdvisedAccess]
_Together = tuple[str, str, tuple[WovenElement, ...]]


class DryRun:
    """The functions and accesses of one process that would have advice. ``without``: messages about what is left out.
    Raises CompileError."""

    def __init__(
        self, process: Process, calls: Iterable[tuple[Shadow, Advice, ShadowCopies, Advice | None]],
        accesses: Iterable[tuple[AccessShadow, AdvisedAccess]], without: Iterable[str],
        trapped: Sequence[tuple[TrappedVariable, TrappedMemory]] = (),
    ) -> None:  # fmt: skip
        self._trapped = trapped
        self._process = process
        looked = [(self._looked_at(*each), each[2]) for each in calls]
        self._calls, self._copies = [one for one, _ in looked], [copies for _, copies in looked]
        self._accesses, self._without = list(accesses), tuple(without)
        self._planned = self._plan()
        self._stacks = stacks(process)

    def _looked_at(self, shadow: Shadow, advice: Advice, copies: ShadowCopies, at_copies: Advice | None) -> _Calls:
        points: list[AdvisedPoint] = []

        def look() -> None:
            check_process(self._process)
            self._process.check_hits()
            copies.check()
            if isinstance(shadow.view, OnlyInlined):
                return
            points.extend(wanted(self._process, shadow.view.entry, advice, advice.compiled().proceeds))

        why = _why(look)
        if why or at_copies is None:
            return _Calls(shadow, advice, () if why else tuple(points), why)
        at_copies.compiled()
        return _Calls(shadow, advice, tuple(points), why, tuple(copies.advised(at_copies)), copies.words)

    def _plan(self) -> Planned:
        """The outcomes of all points but those of accesses by address, of which there are thousands."""
        named = [advised.wanted for shadow, advised in self._accesses if not shadow.by_address]
        return planned(self._process, [*(one for each in self._calls for one in each.wanted), *named])

    def shadows(self) -> Iterator[DryShadow]:
        yield from map(self._of_calls, self._calls)
        yield from self._of_accesses()
        yield from self._of_variables()
        for without in (*self._without, *left_out(self._copies)):
            yield DryShadow(self._process.pid, "", "", (), "", left_out=without)

    def _of_calls(self, one: _Calls) -> DryShadow:
        met, points = one.shadow.met, one.wanted
        why = one.why or refusal(self._planned, points)
        if why and met.partial:
            return DryShadow(self._process.pid, met.image, met.function, (), "", left_out=f"{met.function}: {why}")
        also = dict.fromkeys(each.wanted.function.name for each in one.points if each.kind is ReachedEntry)
        return DryShadow(
            self._process.pid, met.image, met.function, _elements(met.elements), why, points=len(points),
            advised_copies=one.copies_named,
            also=tuple(also), walked=walked_for(met.elements), verified=verifies(met.elements),
            by_thread=asks_threads(met.elements), copies=copies_of(one.shadow),
            tactics=tactics(self._planned, points), calls=one.advice.compiled().calls if points else (),
            inside=tuple(tid for tid, walked in self._stacks.items() if _is_in(one.shadow, walked)),
        )  # fmt: skip

    def _of_accesses(self) -> Iterator[DryShadow]:
        """The accesses, counted by function and elements."""
        why = _why(lambda: check_process(self._process)) or _why(self._process.check_hits)
        together: dict[_Together, list[_Access]] = {}
        for one in self._accesses:
            together.setdefault(_key(one), []).append(one)
        for (image, function, elements), each in together.items():
            every = _met(each[0][0])
            points = [advised.wanted for shadow, advised in each if not shadow.by_address]
            advice = {id(side): side for _, one in each for side in (one.read, one.write) if side is not None}
            called = dict.fromkeys(name for side in advice.values() for name in side.compiled().calls)
            yield DryShadow(
                self._process.pid, image, function, elements, why or refusal(self._planned, points), len(each),
                walked=walked_for(every), verified=verifies(every), by_thread=asks_threads(every),
                tactics=tactics(self._planned, points), calls=tuple(called),
            )  # fmt: skip

    def _of_variables(self) -> Iterator[DryShadow]:
        """The variables that debug registers would watch; whether these are free is not known before they are set."""
        why = _why(lambda: check_process(self._process)) or _why(self._process.check_hits)
        for variable, advised in self._trapped:
            sides = [side for side in (advised.read, advised.write) if side is not None]
            yield DryShadow(
                self._process.pid, variable.image, variable.name, _elements(variable.elements), why,
                by_thread=asks_threads(variable.elements), registers=len(variable.pieces),
                calls=tuple(dict.fromkeys(name for side in sides for name in side.compiled().calls)),
            )  # fmt: skip


def _is_in(shadow: Shadow, walked: Sequence[int]) -> bool:
    """Whether one of the addresses is in code of the function, also in a part of it that lies elsewhere."""
    view, bias = shadow.view, shadow.view.loaded.bias
    if isinstance(view, OnlyInlined):
        return False
    parts = view.process.analysis(view.loaded).extents(view.function)
    return any(part.start <= address - bias < part.end for part in parts for address in walked)


def _key(one: _Access) -> _Together:
    where = one[0].where
    return where.loaded.name, where.access.function.name, _elements(_met(one[0]))


def _met(one: AccessShadow) -> list[MetElement]:
    return [each for met in (one.read, one.write) if met is not None for each in met.elements]


def _elements(met: Sequence[MetElement]) -> tuple[WovenElement, ...]:
    return tuple(WovenElement(one.aspect.label, one.number + 1, str(one.moment)) for one in met)


def _why(look: Callable[[], object]) -> str:
    """The message of the error that ``look`` raises; "" if it raises none."""
    try:
        look()
    except (UsageError, TargetError) as error:
        return f"{error.message} ({error.slug})"
    return ""

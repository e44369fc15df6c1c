# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on calls of functions in a process: what of a function has to be spliced for it, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gilk.analysis.model import End, Function
from gilk.errors import UsageError
from gilk.lang.c.advice import When
from gilk.lang.c.signature import CSignature, parse
from gilk.session import tails
from gilk.session.places import Place
from gilk.session.probing import Points
from gilk.session.request import CFunction, Wanted
from gilk.session.signals import switches_stacks
from gilk.session.tails import Member
from gilk.splice import points
from gilk.splice.access import AccessingInstruction
from gilk.splice.advice import Advised, AdvisedEntry, AdvisedJump, AdvisedReturn, AdvisedStay, ReachedEntry
from gilk.splice.plan import Refusal
from gilk.splice.points import Point
from gilk.splice.segments import is_call
from gilk.targets.advised_workspace import AboutFunction
from gilk.targets.base import Loaded, Target
from gilk.toolchain.advice import CompiledAdvice, compile_advice
from gilk.values import dataclass

_CLONE = re.compile(r"\.(isra|constprop|part|cold)\b")
_NAMED = 5  # refused points in a message


@dataclass(frozen=True, slots=True)
class Advice:
    """``function`` of the C text ``text``, about calls of a function with that signature. ``source``: where the text
    comes from, beside which its includes are looked for; ``declarations``: C in front of the signature."""

    text: str
    function: str
    signature: CSignature
    when: When
    source: Path
    declarations: str = ""

    def compiled(self) -> CompiledAdvice:
        """Raises UsageError `advice-abi`, `bad-signature`, CompileError `does-not-compile`."""
        return compile_advice(self.source, self.text, self.function, self.signature, self.when, self.declarations)


def advice(
    source: str | Path, function: str, signature: str, when: str | When = When.INPLACE, declarations: str = ""
) -> Advice:
    """Advice in C: ``source`` is a file, or C text if it has a line break or a brace.

    Raises UsageError `no-such-file`, `bad-signature`, `bad-advice`.
    """
    if when not in list(When):
        raise UsageError("bad-advice", f"advice does not run {when!r}", f"it runs {', '.join(When)}")
    parsed, text = parse(signature), str(source)
    if "\n" in text or "{" in text:
        return Advice(text, function, parsed, When(when), Path("advice-text.c"), declarations)
    path = Path(source)
    if not path.is_file():
        raise UsageError("no-such-file", f"there is no file {path}")
    return Advice(path.read_text(), function, parsed, When(when), path, declarations)


@dataclass(frozen=True)
class AdvisedCalls:
    """Functions, by their entries, whose calls have advice. ``number`` and ``function``: how C tells one from others
    that have the same advice; "": by its symbol. ``partial``: those that are refused go without."""

    points: Points
    advice: Advice
    number: int = 0
    function: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class AdvisedAccess:
    """An instruction with advice on what it reads, and on what it writes: on one of them at least. ``replaces``: some
    of it stands in place of that. ``number``: of the function that it is in, among those that the C knows. ``bounds``:
    as Accessed has them. ``partial``: it may go without."""

    place: Place
    instruction: AccessingInstruction
    read: Advice | None
    write: Advice | None
    replaces: bool
    number: int
    bounds: int = 0
    partial: bool = False

    @property
    def wanted(self) -> Wanted:
        one = self.read or self.write
        assert one is not None
        place = self.place
        return Wanted(place.loaded, place.function, place.point, CFunction(one.source, one.function), "other")


def check_process(process: Target) -> None:
    """Raises UsageError `stack-switching`."""
    if switches_stacks(process):
        raise UsageError("stack-switching", f"the program of {process.who} goes from stack to stack by itself")


@dataclass(frozen=True, slots=True)
class AdvisedPoint:
    """``kind``: what the advice has there."""

    wanted: Wanted
    kind: type[Advised]


@dataclass(frozen=True)
class AdvisedPlace:
    """The entry of a function, and all points that the advice on its calls has."""

    calls: AdvisedCalls
    place: Place
    points: tuple[AdvisedPoint, ...]
    compiled: CompiledAdvice

    @property
    def about(self) -> AboutFunction:
        place = self.place
        return AboutFunction(self.calls.number, self.calls.function or place.function.name, place.loaded.name)


def wanted(process: Target, place: Place, chosen: Advice, proceeds: bool) -> Iterator[AdvisedPoint]:
    """The points at which advice needs a splice: the entry, and where it ``proceeds``, those that tell when it returns.

    Raises UsageError `advice-at-entry`, `clone`, `tail-call`.
    """
    loaded, function = place.loaded, place.function
    _check_entry(process, loaded, function, place.point)
    named = CFunction(chosen.source, chosen.function)
    yield AdvisedPoint(Wanted(loaded, function, place.point, named, "other"), AdvisedEntry)
    for member in tails.closure(process, loaded, function) if proceeds else ():
        for part, point, kind in _points(process, member, member.function is function):
            yield AdvisedPoint(Wanted(member.loaded, part, point, named, "other"), kind)


def _points(process: Target, member: Member, first: bool) -> Iterator[tuple[Function, Point, type[Advised]]]:
    """The points of one of the functions in which calls of the ``first`` may return: its entry, if others jump there,
    and where it jumps on or returns."""
    analysis, name = process.analysis(member.loaded), member.loaded.name
    if not first:
        yield member.function, points.entry(name, member.function), ReachedEntry
    for jump in member.jumps:
        yield jump.part, points.post(name, analysis, jump.part, jump.block), AdvisedJump
        behind = jump.part.block_at(jump.block.end) if jump.block.how is End.BRANCH else None
        if behind is not None:
            yield jump.part, points.pre(name, jump.part, behind), AdvisedStay
    for part in analysis.extents(member.function):
        for block in part.blocks:
            if block.how is End.RETURN:
                yield part, points.post(name, analysis, part, block), AdvisedReturn


def _check_entry(process: Target, loaded: Loaded, function: Function, point: Point) -> None:
    if point.where != "entry":
        raise UsageError("advice-at-entry", "advice is for calls of functions", "give FUNCTION:entry")
    if function.loops:
        raise UsageError("tail-call", f"{function.name} has jumps to its own beginning")
    if function.whole or _CLONE.search(function.name):
        raise UsageError("clone", f"{function.name} is a part of a function, or one with other parameters")
    image = process.image(loaded.path)
    if image.is_go:
        raise UsageError("stack-switching", f"{loaded.name} is of Go, whose goroutines have stacks of their own")
    first = process.analysis(loaded).steps(function, function.blocks[0])[0]
    if is_call(first):
        raise UsageError("advice-refused", f"{function.name} begins with a call, by which control would leave it")


def refuse(refused: Iterable[tuple[str, Refusal]]) -> None:
    """Raises UsageError `advice-refused` if there are any points, each with the reason."""
    named = [f"{point}: {why}" for point, why in refused]
    if named:
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        raise UsageError(
            "advice-refused", f"not all points can be had: {', '.join(named[:_NAMED])}{more}",
            "docs/refusals.md has the reasons",
        )  # fmt: skip

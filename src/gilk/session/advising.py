# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice on calls of functions in a process: which points of a function it needs, and which functions are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gilk.analysis.model import End, Function
from gilk.errors import UsageError
from gilk.image.value_place import ValuePlace
from gilk.inputs import read_text
from gilk.lang.c.advice import When
from gilk.lang.c.signature import CSignature, parse
from gilk.session.places import Place
from gilk.session.probing import Points
from gilk.session.request import CFunction, Wanted
from gilk.splice import points
from gilk.splice.access import AccessingInstruction
from gilk.splice.advice import Advised, AdvisedEntry, AdvisedJump, AdvisedReturn, AdvisedStay, ReachedEntry
from gilk.splice.plan import Refusal
from gilk.splice.points import Point
from gilk.splice.segments import is_call
from gilk.targets import tails
from gilk.targets.advised_workspace import AboutFunction
from gilk.targets.base import Loaded, Target
from gilk.targets.stack_switching import switches_stacks
from gilk.targets.tails import Member
from gilk.toolchain.advice import CompiledAdvice
from gilk.toolchain.kept_advice import kept_advice
from gilk.values import dataclass

_CLONE = re.compile(r"\.(isra|constprop|part|cold)\b")
_NAMED = 5  # refused points in a message


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on calls of functions that have ``signature``: the function ``function`` of the C text ``text``.

    ``source``: the file of the text; includes are looked for beside it. ``declarations``: C that goes in front of the
    signature.
    """

    text: str
    function: str
    signature: CSignature
    when: When
    source: Path
    declarations: str = ""

    def compiled(self) -> CompiledAdvice:
        """The advice, compiled. Raises UsageError `advice-abi`, `bad-signature`, CompileError `does-not-compile`."""
        return kept_advice(self.source, self.text, self.function, self.signature, self.when, self.declarations)


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
    return Advice(read_text(path), function, parsed, When(when), path, declarations)


@dataclass(frozen=True)
class AdvisedCalls:
    """Advice for the calls of some functions, which ``points`` gives by their entries.

    ``number`` and ``function``: how C tells a function from others with the same advice; if ``function`` is "", it is
    the symbol's name. ``partial``: a function that is refused goes without advice, and the others get it.
    """

    points: Points
    advice: Advice
    number: int = 0
    function: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class AdvisedAccess:
    """Advice on what an instruction reads, on what it writes, or on both.

    ``replaces``: some of the advice stands in place of the access. ``number``: the number by which the C knows the
    function that has the instruction. ``bounds``: see Accessed. ``partial``: the instruction may go without advice if
    it is refused.
    """

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


@dataclass(frozen=True, slots=True)
class TrappedMemory:
    """Memory whose accesses debug registers show, in aligned ``pieces``, each as address and size, with advice on its
    reads, on its writes, or on both."""

    pieces: tuple[tuple[int, int], ...]
    read: Advice | None
    write: Advice | None


@dataclass(frozen=True, slots=True)
class AdvisedCopy:
    """Advice where calls of a function begin in a copy of it, and where they are left: ``left`` has these points, if
    the advice waits for them. ``advice`` is C for copies (lang/aspect/code/copies.py). ``places``: those of the
    arguments that it uses, by their numbers, in the process. ``depth``: in how many functions and copies the copy lies.
    ``frames``: the address by which a call is known again, where it begins and then at each of the points ``left``.
    ``partial``: the copy may go without advice if it is refused.
    """

    place: Place
    advice: Advice
    places: tuple[ValuePlace | None, ...]
    left: tuple[tuple[Function, Point], ...] = ()
    depth: int = 0
    frames: tuple[ValuePlace | None, ...] = ()
    partial: bool = False

    @property
    def points(self) -> Iterator[CopyPoint]:
        """The copy's beginning, and the points where its calls are left."""
        yield CopyPoint(
            self, self._wanted(self.place.function, self.place.point), self.frames[0] if self.left else None
        )
        for (part, point), frame in zip(self.left, self.frames[1:], strict=True):
            yield CopyPoint(self, self._wanted(part, point), frame, True)

    def _wanted(self, function: Function, point: Point) -> Wanted:
        return Wanted(self.place.loaded, function, point, CFunction(self.advice.source, self.advice.function), "other")


@dataclass(frozen=True, slots=True)
class CopyPoint:
    """A point at which a copy with advice needs a splice: its beginning, or one where calls of it are ``left``.
    ``frame``: the address by which a call is known again, if advice waits for its end."""

    copy: AdvisedCopy
    wanted: Wanted
    frame: ValuePlace | None
    left: bool = False


def points_of_copies(copies: Iterable[AdvisedCopy]) -> list[CopyPoint]:
    """The points of copies, in the order in which their instruments run where several are at one place: a call is left
    before another begins there; the innermost is left first, and begins last."""
    found = [point for one in copies for point in one.points]
    return sorted(found, key=lambda one: (0, -one.copy.depth) if one.left else (1, one.copy.depth))


def check_process(process: Target) -> None:
    """Check that the program has no stacks that it switches by itself. Raises UsageError `stack-switching`."""
    if switches_stacks(process):
        raise UsageError("stack-switching", f"the program of {process.who} goes from stack to stack by itself")


@dataclass(frozen=True, slots=True)
class AdvisedPoint:
    """A point at which advice needs a splice. ``kind``: the instrument that the advice has there."""

    wanted: Wanted
    kind: type[Advised]


@dataclass(frozen=True)
class AdvisedPlace:
    """A function whose calls get advice: its entry, and all points that the advice needs."""

    calls: AdvisedCalls
    place: Place
    points: tuple[AdvisedPoint, ...]
    compiled: CompiledAdvice

    @property
    def about(self) -> AboutFunction:
        place = self.place
        name = self.calls.function or place.function.name
        return AboutFunction(self.calls.number, name, place.loaded.name, place.address)


def wanted(process: Target, place: Place, chosen: Advice, proceeds: bool) -> Iterator[AdvisedPoint]:
    """The points at which advice needs a splice: the entry, and if it ``proceeds``, the points where the function's
    call may return.

    Raises UsageError `advice-at-entry`, `clone`, `tail-call`.
    """
    loaded, function = place.loaded, place.function
    _check_entry(process, loaded, function, place.point)
    named = CFunction(chosen.source, chosen.function)
    yield AdvisedPoint(Wanted(loaded, function, place.point, named, "other"), AdvisedEntry)
    for member in tails.closure(process, loaded, function, process.keeper.peek) if proceeds else ():
        for part, point, kind in _points(process, member, member.function is function):
            yield AdvisedPoint(Wanted(member.loaded, part, point, named, "other"), kind)


def _points(process: Target, member: Member, first: bool) -> Iterator[tuple[Function, Point, type[Advised]]]:
    """The points of a function in which calls of the advised function may return: its jumps to other functions, and its
    returns.

    Unless ``first``, which is the advised function itself, its entry as well: other functions jump there.
    """
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
    """Raises UsageError `advice-refused`, which names the points and their reasons, if there are any."""
    named = [f"{point}: {why}" for point, why in refused]
    if named:
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        raise UsageError(
            "advice-refused", f"not all points can be had: {', '.join(named[:_NAMED])}{more}",
            "docs/refusals.md has the reasons",
        )  # fmt: skip

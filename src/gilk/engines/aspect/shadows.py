# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shadows: the functions of a process whose calls elements of aspects may match, and those that control flows name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from gilk.engines.aspect.chosen import chosen
from gilk.engines.aspect.only_inlined import OnlyInlined, OnlyInlinedFunctions
from gilk.engines.aspect.state import CodeRanges
from gilk.engines.aspect.thread_groups import mask
from gilk.errors import UsageError
from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import (
    KERNEL_GROUP,
    CheckedAlternative,
    CheckedCode,
    CheckedElement,
    CheckedFile,
    CheckedFunction,
    last_of,
    outer_of,
)
from gilk.lang.aspect.code.meeting import MetAlternative, MetElement, MetFunction, NumberedAspect, OuterFunction
from gilk.session.inlined import code_of_copies
from gilk.session.places import FunctionView, functions
from gilk.spec.image import is_glob
from gilk.targets.base import Code
from gilk.targets.process import Process
from gilk.targets.tails import jumps_away
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Shadow:
    """A function of the process, and the elements that match at its calls."""

    view: FunctionView
    met: MetFunction


@dataclass(frozen=True, slots=True)
class _Found:
    """A function that an alternative names. ``aspect`` is None if the function is one of a control flow, around the
    calls that match."""

    view: FunctionView
    point: CheckedFunction
    aspect: NumberedAspect | None = None
    element: int = 0
    alternative: int = 0


@dataclass(frozen=True, slots=True)
class PlacedAlternative:
    """Alternative ``which`` of element ``element`` of an aspect; the element is placed in this process or kernel."""

    aspect: NumberedAspect
    element: int
    which: int
    alternative: CheckedAlternative


class WatchedAlternative(Protocol):
    """Alternative ``which`` of element ``element`` of an aspect."""

    @property
    def aspect(self) -> NumberedAspect: ...

    @property
    def element(self) -> int: ...

    @property
    def which(self) -> int: ...


class Shadows:
    """Finds the functions that the aspects of a file name in a process.

    ``groups``: the groups that the process is a member of. ``ranges``: receives the code of functions that callers are
    compared with. ``kernel``: the target is a kernel.
    """

    def __init__(
        self, process: Code, file: CheckedFile, groups: Collection[str], ranges: CodeRanges, kernel: bool = False
    ) -> None:
        self._process, self._file, self._groups, self._ranges = process, file, groups, ranges
        self._kernel = kernel
        self._of = {group.name: group.of for group in file.groups if group.of}
        self._by_address: dict[int, list[_Found]] = {}
        self._numbers: dict[int, int] = {}
        self._meant: dict[CheckedFunction, list[FunctionView]] = {}
        self._only_inlined = OnlyInlinedFunctions(process)
        #: Messages about functions that are not always found on the stack, since their aspects are `partial`.
        self.left_out: dict[str, None] = {}

    def found(self, aspects: Sequence[NumberedAspect]) -> tuple[Shadow, ...]:
        """The shadows, in the order in which the aspects name the functions.

        Raises UsageError `no-such-function`, `no-such-image`, `ambiguous-function`, `cannot-weave`.
        """
        for one in self._all(aspects):
            self._by_address.setdefault(one.view.address, []).append(one)
        self._numbers = {address: number for number, address in enumerate(self._by_address)}
        return tuple(self._shadow(address) for address in self._by_address)

    def placed(self, aspects: Sequence[NumberedAspect]) -> Iterator[PlacedAlternative]:
        """The alternatives of all elements that are placed in this process, in the order in which the aspects have
        them."""
        for aspect in aspects:
            for number, element in enumerate(aspect.elements):
                if element.is_on(self._kernel) and _is_placed(element, self._of, self._groups):
                    for which, alternative in enumerate(element.alternatives):
                        yield PlacedAlternative(aspect, number, which, alternative)

    def _all(self, aspects: Sequence[NumberedAspect]) -> Iterator[_Found]:
        for one in self.placed(aspects):
            point = one.alternative.point
            for outer in () if one.aspect.checked.walk else outer_of(point):
                yield from (_Found(view, outer) for view in self._views(outer))
            last = last_of(point)
            if isinstance(last, CheckedFunction):
                yield from (_Found(view, last, one.aspect, one.element, one.which) for view in self._views(last))

    def _views(self, point: CheckedFunction) -> list[FunctionView]:
        """The functions that a point names. They are looked up only once, so that libraries opened meanwhile change
        nothing."""
        if point not in self._meant:
            self._meant[point] = self._functions_meant(point)
        return self._meant[point]

    def _functions_meant(self, point: CheckedFunction) -> list[FunctionView]:
        """The functions that a point names; if it has no image, those of the main program, or if that has none, of any
        library. If they are inlined everywhere, they have no code of their own."""
        found = self._of_first_image(point, _first_of(point))
        if len({one.address for one in found}) > 1 and not is_glob(point.name) and not point.image:
            raise UsageError(
                "ambiguous-function", f"{self._where(point)}: there are {len(found)} functions {point.name}",
                "say the image: " + ", ".join(sorted({one.loaded.name for one in found})[:5]),
            )  # fmt: skip
        return found

    def _of_first_image(self, point: CheckedFunction, images: Sequence[str]) -> list[FunctionView]:
        try:
            return list(functions(self._process, point.name, images[0]))
        except UsageError as error:
            if images[1:] and error.slug in ("no-such-function", "no-such-image"):
                return self._of_first_image(point, images[1:])
            if not self._kernel and error.slug == "no-such-function":
                images = _first_of(point)
                inlined = (list(self._only_inlined.named(point.name, image)) for image in images)
                if first := next(filter(None, inlined), None):
                    return [*first]
            error.message = f"{self._where(point)}: {error.message}"
            raise

    def _where(self, point: CheckedFunction) -> str:
        return f"{self._file.source.name}, line {self._file.source.line(point.span)}"

    def _shadow(self, address: int) -> Shadow:
        found = self._by_address[address]
        view = found[0].view
        elements = {(one.aspect.number, one.element): one.aspect for one in found if one.aspect is not None}
        met = [each for (_, n), aspect in sorted(elements.items(), key=lambda one: one[0])
               for each in self._met(aspect, n, found)]  # fmt: skip
        tracked = any(one.aspect is None for one in found)
        number, point = self._numbers[address], self._point(address)
        return Shadow(view, MetFunction(number, view.loaded.name, view.name, point, tuple(met), tracked))

    def _point(self, address: int) -> CheckedFunction:
        """The first declaration of the function that has parameters. Raises UsageError `cannot-weave` if another one
        has a different number."""
        points = [one.point for one in self._by_address[address]]
        first = next((one for one in points if one.parameters is not None), points[0])
        for other in points:
            if other.parameters is not None and len(other.parameters) != len(first.parameters or ()):
                raise UsageError(
                    "cannot-weave", f"{self._where(other)}: {other.name} has other parameters elsewhere in the file",
                    "declare it alike",
                )  # fmt: skip
        return first

    def _met(self, aspect: NumberedAspect, number: int, found: Sequence[_Found]) -> Iterator[MetElement]:
        """The alternatives of an element that match, among those found, for each moment."""
        element = aspect.elements[number]
        which = sorted({one.alternative for one in found if one.aspect is aspect and one.element == number})
        for moment in Moment:
            here = tuple(self.way(aspect, number, n) for n in which if aspect.moment(number, n) is moment)
            if here:
                yield MetElement(aspect, number, moment, here, self._members(element))

    def elements(self, ways: Sequence[WatchedAlternative]) -> Iterator[MetElement]:
        """The alternatives among ``ways`` that match, for each element and moment."""
        for number, element in sorted({(one.aspect.number, one.element) for one in ways}):
            own = [one for one in ways if (one.aspect.number, one.element) == (number, element)]
            aspect = own[0].aspect
            for moment in Moment:
                here = [one for one in own if aspect.moment(element, one.which) is moment]
                if here:
                    met = tuple(self.way(aspect, element, one.which) for one in here)
                    yield MetElement(aspect, element, moment, met, self._members(aspect.elements[element]))

    def _members(self, element: CheckedElement) -> int:
        """A bit for each group of which a thread has to be a member; 0 if no test is needed."""
        if not self._file.regroups or self._kernel or not element.places:
            return 0
        groups = groups_of(element, self._of) - {KERNEL_GROUP}
        return mask(groups, [one.name for one in self._file.groups])

    def way(self, aspect: NumberedAspect, element: int, which: int) -> MetAlternative:
        """An alternative of an element, with the callers and the outer calls that it requires."""
        one = aspect.elements[element].alternatives[which]
        callers = (self._ranges.place(self.ranges_of(one.callers)),) if one.callers else ()
        outer = outer_of(one.point)
        if aspect.checked.walk:
            walked = tuple(self._ranges.place(self._code(aspect, each)) for each in reversed(outer))
            return MetAlternative(one, (), callers, walked)
        return MetAlternative(one, tuple(map(self._around, outer)), callers)

    def _code(self, aspect: NumberedAspect, point: CheckedFunction) -> Iterator[tuple[int, int]]:
        """The address ranges of all functions that a point names, which are to be found on the stack.

        Raises UsageError `tail-call` if one of them may end in a jump to another function, and the aspect is not
        `partial`.
        """
        for view in self._views(point):
            if not isinstance(view, OnlyInlined):
                self._check_stays(aspect, point, view)
            yield from self._extents(view)
            bias = view.loaded.bias
            yield from ((low + bias, high + bias) for low, high in code_of_copies(view.loaded, view.function.name))

    def _check_stays(self, aspect: NumberedAspect, point: CheckedFunction, view: FunctionView) -> None:
        """Check that calls of the function are on the stack until they return; note it if the aspect is `partial`."""
        try:
            to = jumps_away(self._process, view.loaded, view.function)
            if not to:
                return
            why = f"{view.name} may end in a jump to {', '.join(to)}, and is not on the stack then"
            error = UsageError("tail-call", why, "leave `walk` out, or say `partial`")
        except UsageError as found:
            error = found
        error.message = f"{self._where(point)}: {error.message}"
        if not aspect.checked.partial:
            raise error
        self.left_out.setdefault(f"{error.message} ({error.slug})")

    def _around(self, point: CheckedFunction) -> tuple[OuterFunction, ...]:
        return tuple(
            OuterFunction(
                self._numbers[view.address], self._ranges.place(self._extents(view)), self._point(view.address)
            )
            for view in self._views(point)
        )

    def _extents(self, view: FunctionView) -> Iterator[tuple[int, int]]:
        """The address ranges of a function's own code in the process, including parts that lie elsewhere."""
        if isinstance(view, OnlyInlined):
            return
        for part in self._process.analysis(view.loaded).extents(view.function):
            yield part.start + view.loaded.bias, part.end + view.loaded.bias

    def ranges_of(self, callers: Sequence[CheckedCode]) -> Iterator[tuple[int, int]]:
        """The address ranges, in the process, of the code that ``callers`` name."""
        for one in callers:
            if one.either:
                yield from self._of_functions(one.either, "*")
                yield from self._of_images(one.either)
            elif one.function:
                yield from self._of_functions(one.function, one.image or "*")
            else:
                yield from self._of_images(one.image)

    def _of_functions(self, name: str, image: str) -> Iterator[tuple[int, int]]:
        try:
            found = list(functions(self._process, name, image))
        except UsageError:  # there is no such function: no call comes from it
            return
        for view in found:
            yield from self._extents(view)
            if isinstance(self._process, Process):
                yield from (part for one in chosen(self._process, view) for part in self._extents(one))

    def _of_images(self, name: str) -> Iterator[tuple[int, int]]:
        return ((one.start, one.end) for one in self._process.loaded() if one.is_meant(name))


def _first_of(point: CheckedFunction) -> list[str]:
    """The images in which the function of a point is looked for, those first that are meant rather."""
    return [point.image] if point.image else ["", "*"]


def groups_of(element: CheckedElement, of: dict[str, tuple[str, ...]]) -> set[str]:
    """The groups that an element is placed in, with each group that consists of others replaced by those."""
    return {each for place in element.places for each in of.get(place, (place,))}


def _is_placed(element: CheckedElement, of: dict[str, tuple[str, ...]], groups: Collection[str]) -> bool:
    return not element.places or bool(groups_of(element, of) & set(groups))

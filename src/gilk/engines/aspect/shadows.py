# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shadows: the functions of a process at whose calls elements of aspects may match."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gilk.errors import UsageError
from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.checked import CheckedAlternative, CheckedElement, CheckedFile, CheckedFunction
from gilk.lang.aspect.code.meeting import MetElement, MetFunction, NumberedAspect
from gilk.session.places import FunctionView, functions
from gilk.targets.base import Code
from gilk.values import dataclass

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Shadow:
    """A function of the process, and what matches at its calls."""

    view: FunctionView
    met: MetFunction


@dataclass(frozen=True, slots=True)
class _Found:
    view: FunctionView
    point: CheckedFunction
    met: tuple[NumberedAspect, int, int]  # the aspect, numbers of the element and of the alternative


def shadows(
    process: Code, file: CheckedFile, aspects: Sequence[NumberedAspect], groups: Collection[str]
) -> tuple[Shadow, ...]:
    """In the order in which the aspects name them. ``groups``: those that the process is a member of.

    Raises UsageError `no-such-function`, `no-such-image`, `ambiguous-function`, `cannot-weave`.
    """
    by_address: dict[int, list[_Found]] = {}
    for found in _all(process, file, aspects, groups):
        by_address.setdefault(found.view.address, []).append(found)
    return tuple(_shadow(found) for found in by_address.values())


def _all(
    process: Code, file: CheckedFile, aspects: Sequence[NumberedAspect], groups: Collection[str]
) -> Iterator[_Found]:
    of = {group.name: group.of for group in file.groups if group.of}
    for aspect in aspects:
        for number, element in enumerate(aspect.elements):
            if _is_placed(element, of, groups):
                yield from _of_element(process, file, aspect, number)


def _is_placed(element: CheckedElement, of: dict[str, tuple[str, ...]], groups: Collection[str]) -> bool:
    places = {each for place in element.places for each in of.get(place, (place,))}
    return not element.places or bool(places & set(groups))


def _of_element(process: Code, file: CheckedFile, aspect: NumberedAspect, number: int) -> Iterator[_Found]:
    for which, alternative in enumerate(aspect.elements[number].alternatives):
        point = alternative.point
        assert isinstance(point, CheckedFunction)
        for view in _views(process, file, point):
            yield _Found(view, point, (aspect, number, which))


def _views(process: Code, file: CheckedFile, point: CheckedFunction) -> list[FunctionView]:
    """The functions meant. Without an image: those of the program, and where it has none, of any library."""
    images = [point.image] if point.image else ["", "*"]
    for image in images:
        try:
            found = list(functions(process, point.name, image))
        except UsageError as error:
            if image == images[-1] or error.slug not in ("no-such-function", "no-such-image"):
                error.message = f"{_where(file, point)}: {error.message}"
                raise
            continue
        if len(_distinct(found)) > 1 and not _GLOB & set(point.name) and not point.image:
            raise UsageError(
                "ambiguous-function", f"{_where(file, point)}: there are {len(found)} functions {point.name}",
                "say the image: " + ", ".join(sorted({one.loaded.name for one in found})[:5]),
            )  # fmt: skip
        return found
    raise AssertionError("the last image has been tried")


def _distinct(found: Sequence[FunctionView]) -> set[int]:
    return {one.address for one in found}


def _where(file: CheckedFile, point: CheckedFunction) -> str:
    return f"{file.source.name}, line {file.source.line(point.span)}"


def _shadow(found: list[_Found]) -> Shadow:
    view = found[0].view
    point = next((one.point for one in found if one.point.parameters is not None), found[0].point)
    elements: list[MetElement] = []
    by_element: dict[tuple[int, int], list[_Found]] = {}
    for one in found:
        aspect, number, _ = one.met
        by_element.setdefault((aspect.number, number), []).append(one)
    for (_, number), ones in by_element.items():
        elements += _met(ones[0].met[0], number, [one.met[2] for one in ones])
    ordered = sorted(elements, key=lambda one: (one.aspect.number, one.number))
    return Shadow(view, MetFunction(view.loaded.name, view.name, point, tuple(ordered)))


def _met(aspect: NumberedAspect, number: int, which: Sequence[int]) -> Iterator[MetElement]:
    """One for each moment at which some alternative of the element matches."""
    element = aspect.elements[number]
    for moment in Moment:
        here = [(n, element.alternatives[n]) for n in sorted(set(which)) if _moment(element, n) is moment]
        if here:
            yield MetElement(aspect, number, moment, tuple(here))


def _moment(element: CheckedElement, which: int) -> Moment:
    after = element.advice is not None and element.advice.when == "after"
    return Moment.AFTER if after or _alternative(element, which).returns else Moment.BEFORE


def _alternative(element: CheckedElement, which: int) -> CheckedAlternative:
    return element.alternatives[which]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of the language that can be woven. All else is refused by name, before anything has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.engines.aspect.state import ASPECTS, ELEMENTS
from gilk.errors import UsageError
from gilk.lang.aspect.checked import CheckedFile, CheckedFunction, CheckedGlobal, CheckedPoint, last_of
from gilk.lang.aspect.code.meeting import NumberedAspect
from gilk.lang.syntax.source import Span

_FOLDS = ("count", "sum", "min", "max", "avg")


def check_possible(file: CheckedFile, aspects: Sequence[NumberedAspect]) -> None:
    """Raises UsageError `cannot-weave` with the first reason."""
    for span, why, hint in _reasons(file, aspects):
        raise UsageError("cannot-weave", f"{file.source.name}, line {file.source.line(span)}: {why}", hint)


def _reasons(file: CheckedFile, aspects: Sequence[NumberedAspect]) -> Iterator[tuple[Span, str, str]]:
    nowhere = Span(0, 0)
    if len(aspects) >= ASPECTS:
        yield nowhere, f"there are more than {ASPECTS - 1} aspects", "make two files of it"
    if file.types:
        yield nowhere, "`types` are not read from debug information", "declare the types in %{ %}"
    for table in file.tables:
        if table.fold not in _FOLDS:
            yield nowhere, f"table {table.name}: tables fold by {', '.join(_FOLDS)}", "add up the parts"
    for part in file.process_c:
        if "proceed" in part.text:
            yield part.span, "`proceed` stands in advice only, where it can be seen", "write it there"
    for aspect in aspects:
        yield from _of_aspect(aspect)


def _of_aspect(aspect: NumberedAspect) -> Iterator[tuple[Span, str, str]]:
    checked = aspect.checked
    if len(aspect.elements) > ELEMENTS:
        yield checked.span, f"a sequence has more than {ELEMENTS} elements", "make two aspects of it"
    if checked.verify or checked.walk:
        yield checked.span, "`verify` and `walk` are not there: no stack is walked", "leave them out"
    if checked.partial and not any(_of_variable(each.point) for one in aspect.elements for each in one.alternatives):
        yield checked.span, "`partial` is for accesses: all calls of an aspect are woven, or none", "leave it out"
    for element in aspect.elements:
        if element.kernel:
            yield element.span, "elements in the kernel are not woven", "leave the element out"
        for alternative in element.alternatives:
            if why := _impossible(alternative.point):
                yield alternative.span, f"{why} not woven", "calls and accesses of variables are"


def _of_variable(point: CheckedPoint) -> bool:
    return isinstance(last_of(point), CheckedGlobal)


def _impossible(point: CheckedPoint) -> str:
    """The kind of events that stand against it; "" for calls and accesses of variables, and for control flows that end
    in one."""
    return "" if isinstance(last_of(point), CheckedFunction | CheckedGlobal) else "accesses of memory are"

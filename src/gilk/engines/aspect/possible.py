# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of the aspect language that can be woven; any other part is refused, with its name, before anything has
changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.engines.aspect.state import ASPECTS, ELEMENTS
from gilk.engines.aspect.thread_groups import MOST_GROUPS
from gilk.errors import UsageError
from gilk.lang.aspect.checked import CheckedAlias, CheckedC, CheckedDemand, CheckedFile
from gilk.lang.aspect.code.meeting import NumberedAspect, first_binders
from gilk.lang.aspect.code.regions import watched
from gilk.lang.aspect.code.sides import declared_there, is_on_both
from gilk.lang.syntax.source import Span

_MOST_WATCHING = (1 << 24) - 1  # native/include/gilk_region.h
_LOGS = ("ilk_log_", "gilk_log_")  # functions of native/include/gilk.h, for instruments


def check_possible(file: CheckedFile, aspects: Sequence[NumberedAspect]) -> None:
    """Check that the aspects can be woven. Raises UsageError `cannot-weave` with the first reason against it."""
    for span, why, hint in _reasons(file, aspects):
        raise UsageError("cannot-weave", f"{file.source.name}, line {file.source.line(span)}: {why}", hint)


def check_lasting(aspects: Sequence[NumberedAspect], kernel: bool) -> None:
    """Check that the aspects can do without gilk. ``kernel``: some are woven into a kernel. Raises UsageError
    `usage`."""
    if kernel:
        raise UsageError("usage", "--persist is for processes: the kernel's part goes with gilk", "leave one out")
    if any(one.checked.debugreg for one in aspects):
        why = "--persist cannot be had with `debugreg`: a keeper has to lead threads to the advice"
        raise UsageError("usage", why, "leave one out")


def _reasons(file: CheckedFile, aspects: Sequence[NumberedAspect]) -> Iterator[tuple[Span, str, str]]:
    nowhere = Span(0, 0)
    if not aspects:
        yield nowhere, "there is no aspect in it", "docs/aspect/language.md has some"
    if len(aspects) >= ASPECTS:
        yield nowhere, f"there are more than {ASPECTS - 1} aspects", "make two files of it"
    if file.regroups and len(file.groups) > MOST_GROUPS:
        yield nowhere, f"join and leave are for {MOST_GROUPS} groups at most", "declare fewer groups"
    for part in file.process_c:
        if "proceed" in part.text:
            yield part.span, "`proceed` stands in advice only, where it can be seen", "write it there"
    for part in (*file.process_c, *(one for aspect in aspects for one in _c_of(aspect))):
        for name in part.names:
            if name.startswith(_LOGS):
                why = f"{name} writes a sample, and a weaving keeps none"
                yield part.span, why, "report(format, ...) tells the weaver something, add(table, key, n) counts"
    for aspect in aspects:
        yield from _of_aspect(aspect)


def _c_of(aspect: NumberedAspect) -> Iterator[CheckedC]:
    """All C of the aspect's elements and words."""
    yield from (one.initial for one in aspect.checked.words if one.initial is not None)
    for element in aspect.elements:
        yield from (element.advice.body,) if element.advice is not None else ()
        for step in (step for one in element.alternatives for step in one.steps):
            found = step.condition if isinstance(step, CheckedDemand) else step.expression
            yield from (found,) if found is not None else ()


def _of_aspect(aspect: NumberedAspect) -> Iterator[tuple[Span, str, str]]:
    checked = aspect.checked
    if len(aspect.elements) > ELEMENTS:
        yield checked.span, f"a sequence has more than {ELEMENTS} elements", "make two aspects of it"
    if checked.verify and any(element.kernel for element in aspect.elements):
        yield checked.span, "`verify` is for processes: nobody walks the kernel's stack", "leave it out"
    if is_on_both(aspect):
        yield from _of_both(aspect)
    for element in aspect.elements:
        for alternative in element.alternatives:
            if isinstance(alternative.point, CheckedAlias):
                yield from _of_alias(aspect, alternative.point)


def _of_both(aspect: NumberedAspect) -> Iterator[tuple[Span, str, str]]:
    """The reasons against an aspect with elements in the kernel and in processes: both sides must know the types of
    what an instance keeps, and where it is."""
    bound = {name: (number, step.type, step.span) for name, (number, _, step) in first_binders(aspect).items()}
    words = ((one.name, one.type, one.span) for one in aspect.checked.words)
    for name, type_, span in (*words, *((name, type_, span) for name, (_, type_, span) in bound.items())):
        if declared_there(type_, name) is None:
            why = f"the kernel and processes have to know what {name} is made of, and its type does not say that"
            yield span, why, f"bind a number: bind(unsigned long {name}, ...)"
    for alias in watched(aspect):
        for name in (alias.address, *(alias.length.names if alias.length is not None else ())):
            if name in bound and aspect.elements[bound[name][0]].kernel:
                why = f"{name} says which memory of the process is meant, and the kernel binds it"
                yield alias.span, why, "bind it in the process"


def _of_alias(aspect: NumberedAspect, point: CheckedAlias) -> Iterator[tuple[Span, str, str]]:
    """The reasons against an element that watches memory: neither the address nor the length of that memory may change,
    because instances are found by them."""
    kept = {one.name for one in aspect.checked.kept}
    used = (point.address, *(point.length.names if point.length is not None else ()))
    for name in used:
        if name in {one.name for one in aspect.checked.words}:
            why = f"advice may change {name}, and where {point.address} leads and how far has to stay as it is"
            yield point.span, why, "bind a name, and use that"
    if point.address not in kept:
        yield point.span, f"no element that an instance keeps the names of binds {point.address}", "bind it before"
    if aspect.automaton.instances >= _MOST_WATCHING:
        yield aspect.checked.span, f"{_MOST_WATCHING} instances or more cannot watch memory", "make it fewer"

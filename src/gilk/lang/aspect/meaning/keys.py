# SPDX-License-Identifier: LGPL-2.1-or-later
"""The pass that finds out what an instance keeps, which is what later elements use, and the keys by which
it is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gilk.lang.aspect import cnames
from gilk.lang.aspect.checked import (
    AspectKey,
    CheckedAlias,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedDemand,
    CheckedElement,
    CheckedFile,
    KeptName,
)
from gilk.lang.aspect.meaning.findings import Findings
from gilk.lang.aspect.tags import AspectTag

#: Bytes that an instance has for the names that it keeps and its words.
ROOM = 512
_WORD = 8


def run(file: CheckedFile, findings: Findings) -> CheckedFile:
    return replace(file, aspects=tuple(_aspect(one, findings) for one in file.aspects))


def _aspect(aspect: CheckedAspect, findings: Findings) -> CheckedAspect:
    before, elements = set[str](), list[CheckedElement]()
    for element in aspect.elements:
        elements.append(replace(element, keys=tuple(_keys(element, before))))
        if not element.repeated:
            before |= _bound(element)
    first = _bound(aspect.elements[0])
    until = tuple(replace(one, keys=tuple(_keys(one, first))) for one in aspect.until)
    found = replace(aspect, elements=tuple(elements), until=until)
    found = replace(found, kept=tuple(_kept(found)))
    _fits(found, findings)
    _unkeyed(found, findings)
    return found


def _bound(element: CheckedElement) -> set[str]:
    steps = (one for each in element.alternatives for one in each.steps)
    return {one.name for one in steps if isinstance(one, CheckedBinding)}


def _keys(element: CheckedElement, before: set[str]) -> Iterator[AspectKey]:
    """The equalities, for each alternative, between names in ``before`` and values of the event."""
    for number, alternative in enumerate(element.alternatives):
        if isinstance(alternative.point, CheckedAlias) and alternative.point.address in before:
            name = alternative.point.address
            yield AspectKey(name, name, number, alternative.point.span)
        for step in alternative.steps:
            if isinstance(step, CheckedBinding):
                if step.test and step.name in before:
                    text = step.expression.text if step.expression is not None else step.name
                    yield AspectKey(step.name, text, number, step.span)
            else:
                yield from _asked(step, before, number)


def _asked(demand: CheckedDemand, before: set[str], number: int) -> Iterator[AspectKey]:
    for sides in cnames.equalities(demand.condition.text):
        for name, other in (sides, sides[::-1]):
            if name in before and not before & set(cnames.names(other)):
                yield AspectKey(name, other, number, demand.condition.span)
                break


def _kept(aspect: CheckedAspect) -> Iterator[KeptName]:
    """The names, in order of binding, that an element other than the last binds and a later one uses."""
    seen = set[str]()
    for number, element in enumerate(aspect.elements[:-1]):
        later = set(aspect.unique or ())
        for one in (*aspect.elements[number + 1 :], *aspect.until):
            later |= _used(one)
        for alternative in element.alternatives if not element.repeated else ():
            for step in alternative.steps:
                if isinstance(step, CheckedBinding) and step.name in later - seen and not step.test:
                    seen.add(step.name)
                    yield KeptName(step.name, step.type)


def _used(element: CheckedElement) -> set[str]:
    """All names in the element's C, and those that it binds or tests."""
    found = set(element.advice.body.names) if element.advice is not None else set()
    for alternative in element.alternatives:
        found |= _used_by(alternative)
    return found


def _used_by(alternative: CheckedAlternative) -> set[str]:
    point, found = alternative.point, set[str]()
    if isinstance(point, CheckedAlias):
        found |= {point.address, *(point.length.names if point.length is not None else ())}
    return found | alternative.step_names


def _fits(aspect: CheckedAspect, findings: Findings) -> None:
    sizes = [(one.name, one.type.size or _WORD) for one in aspect.kept]
    sizes += [(one.name, one.type.size or _WORD) for one in aspect.words]
    total = sum(size for _, size in sizes)
    if total > ROOM:
        largest = max(sizes, key=lambda one: one[1])
        why = f"an instance would keep {total} bytes, and has room for {ROOM}"
        hint = f"{largest[0]} takes {largest[1]}; only what later elements use is kept"
        findings.say(AspectTag.A_STATE, aspect.span, why, hint)


def _unkeyed(aspect: CheckedAspect, findings: Findings) -> None:
    if aspect.perthread:
        return
    for element in (*aspect.elements[1:], *aspect.until):
        keyed = {key.alternative for key in element.keys}
        for number, alternative in enumerate(element.alternatives):
            if number not in keyed:
                why = "nothing here equals what an instance has bound: all that are open are looked at"
                hint = "bind a name again, or ask if (name == ...); or say perthread"
                findings.say(AspectTag.A_UNKEYED, alternative.span, why, hint)

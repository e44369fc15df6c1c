# SPDX-License-Identifier: LGPL-2.1-or-later
"""The translation of aspects with their meaning (checked.py) to automata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from gilk.lang.aspect.automaton import (
    INSTANCES,
    AdviceCode,
    Advising,
    AliasAccess,
    Alternative,
    Automaton,
    BoundName,
    Calling,
    Compute,
    ControlFlow,
    Demand,
    Element,
    Gives,
    GlobalAccess,
    JoinPoint,
    Qualifying,
    Sharing,
    Take,
    Word,
)
from gilk.lang.aspect.checked import (
    BindingSource,
    CheckedAlias,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedCode,
    CheckedDemand,
    CheckedElement,
    CheckedFile,
    CheckedFlow,
    CheckedFunction,
    CheckedGlobal,
)

_UNBOUND = BoundName("", "")


def automata(file: CheckedFile) -> tuple[Automaton, ...]:
    """The automata of a file's aspects, in the order of the text, which is the order of weaving. An aspect without a
    name is called by its number.
    """
    return tuple(_Lowering(file).aspect(one, number) for number, one in enumerate(file.aspects, 1))


class _Lowering:
    def __init__(self, file: CheckedFile) -> None:
        self._source = file.source
        self._members = {group.name: group.of for group in file.groups if group.of}

    def aspect(self, aspect: CheckedAspect, number: int) -> Automaton:
        shared = Sharing.PROCESS if aspect.perprocess else Sharing.ANY
        return Automaton(
            aspect.name or f"#{number}",
            tuple(self._element(one, aspect.debugreg) for one in aspect.elements),
            tuple(self._element(one, aspect.debugreg) for one in aspect.until),
            aspect.within,
            aspect.unique,
            Sharing.THREAD if aspect.perthread else shared,
            INSTANCES if aspect.instances is None else aspect.instances,
            aspect.instances is not None,
            tuple(
                Word(BoundName(one.name, one.type.text), one.initial.text if one.initial is not None else "0")
                for one in aspect.words
            ),
            self._source.name,
            aspect.walk,
            aspect.verify,
            aspect.debugreg,
        )

    def _element(self, element: CheckedElement, seen_late: bool) -> Element:
        advice = element.advice
        return Element(
            tuple(map(_alternative, element.alternatives)),
            AdviceCode(Advising(advice.when), advice.body.text) if advice is not None else None,
            element.repeated,
            self._places(element.places),
            self._source.line(element.span),
            seen_late,
        )

    def _places(self, groups: Sequence[str]) -> tuple[str, ...]:
        """The groups of an element, with each group that consists of others replaced by those."""
        found = (each for group in groups for each in self._members.get(group, (group,)))
        return tuple(dict.fromkeys(found))


def _alternative(one: CheckedAlternative) -> Alternative:
    arguments = [step for step in one.steps if _is_argument(step)]
    firsts: dict[tuple[int, int], str] = {}
    qualifiers: list[Qualifying] = []
    for each in arguments:
        before = firsts.setdefault((each.function, each.number), each.name)
        if before != each.name:  # args() has given another name to a parameter that is named in the signature
            qualifiers.append(Compute(BoundName(each.name, each.type.text), before))
    point = _point(one.point, [each for each in arguments if firsts[each.function, each.number] == each.name])
    qualifiers += [_qualifier(step) for step in one.steps if not _is_argument(step)]
    return Alternative(point, tuple(qualifiers), tuple(map(_code, one.callers)), tuple(map(_code, one.within)))


def _is_argument(step: CheckedBinding | CheckedDemand) -> TypeGuard[CheckedBinding]:
    return isinstance(step, CheckedBinding) and step.source is BindingSource.ARGUMENT


def _qualifier(step: CheckedBinding | CheckedDemand) -> Qualifying:
    if isinstance(step, CheckedDemand):
        return Demand(step.condition.text)
    name = BoundName(step.name, step.type.text)
    if step.expression is not None:
        return Compute(name, step.expression.text)
    return Take(Gives(step.source.value), name)


def _point(
    point: CheckedFunction | CheckedGlobal | CheckedAlias | CheckedFlow, arguments: Sequence[CheckedBinding]
) -> JoinPoint:
    match point:
        case CheckedFunction():
            return _calling(point, arguments, 0)
        case CheckedFlow(strict=strict, outer=outer, last=last):
            around = tuple(_calling(one, arguments, number) for number, one in enumerate(outer))
            if isinstance(last, CheckedFunction):
                return ControlFlow(strict, around, _calling(last, arguments, len(outer)))
            return ControlFlow(strict, around, _variable(last))
        case CheckedGlobal():
            return _variable(point)
        case CheckedAlias():
            length = point.length.text if point.length is not None else ""
            return AliasAccess(point.write, point.address, length, point.type.text)


def _variable(point: CheckedGlobal) -> GlobalAccess:
    return GlobalAccess(point.write, point.path, point.image, point.type.text)


def _calling(function: CheckedFunction, arguments: Sequence[CheckedBinding], number: int) -> Calling:
    own = {one.number: BoundName(one.name, one.type.text) for one in arguments if one.function == number}
    names = tuple(own.get(each, _UNBOUND) for each in range(max(own, default=-1) + 1))
    return Calling(function.name, names, function.image, function.result.text, function.exact)


def _code(code: CheckedCode) -> str:
    return code.either or f"{code.image}:{code.function}"

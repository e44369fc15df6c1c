# SPDX-License-Identifier: LGPL-2.1-or-later
"""Keys: names of instances that are numbers or pointers, and whose values an event gives before any condition is
evaluated. Instances that wait for the event are found by these values (native/include/gilk_region.h).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.checked import AspectKey, BindingSource, CheckedAlternative, CheckedBinding, CheckedElement
from gilk.lang.aspect.code.meeting import MetAlternative, MetElement, NumberedAspect, first_binders
from gilk.lang.aspect.code.types import kept_symbols
from gilk.lang.types import Enumeration, Integer, Pointer, Type

_GIVEN = ("pid()", "tid()")


def indexed(aspect: NumberedAspect) -> tuple[str, ...]:
    """The names by which instances are found, in order of binding."""
    if not aspect.is_sequence:
        return ()
    asked = set(aspect.checked.unique or ())
    for element in aspect.elements[1:]:
        asked |= {key.name for key in element.keys if _expression(element, key) is not None}
    return tuple(name for name in first_binders(aspect) if name in asked and _is_kept_by_all(aspect, name))


def _is_kept_by_all(aspect: NumberedAspect, name: str) -> bool:
    """Whether every alternative of the element that binds the name binds it, to a number or a pointer."""
    number, _, step = first_binders(aspect)[name]
    steps = [[each for each in _bindings(one) if each.name == name] for one in aspect.elements[number].alternatives]
    return _is_scalar(step.type.type) and all(each and not each[0].test for each in steps)


def _is_scalar(type_: Type | None) -> bool:
    return isinstance(type_, Integer | Pointer | Enumeration)


def _bindings(alternative: CheckedAlternative) -> Iterator[CheckedBinding]:
    return (one for one in alternative.steps if isinstance(one, CheckedBinding))


def _expression(element: CheckedElement, key: AspectKey) -> str | None:
    """The value of the key in the event, as C; None if a condition before it may prevent its evaluation."""
    alternative = element.alternatives[key.alternative]
    for step in _bindings(alternative):
        if step.test and step.name == key.name and step.span == key.span:
            return _told(step)
        if not step.test and step.name == key.expression and step.source is BindingSource.ARGUMENT:
            return _told(step) if _is_scalar(step.type.type) else None
    return key.expression if key.expression in _GIVEN else None


def _told(step: CheckedBinding) -> str | None:
    if step.source is BindingSource.RETURN:
        return "*gilk_result"
    if step.source is BindingSource.ARGUMENT and not step.function:
        return f"gilk_came->argument_{step.number}"
    return None


def looked_up(aspect: NumberedAspect, elements: Sequence[MetElement]) -> tuple[tuple[str, ...], ...] | None:
    """The keys, as C, by which all instances are found that any of the elements may move: a tuple for each alternative,
    of whose keys any one will do. None if all instances have to be looked at.
    """
    found: dict[tuple[str, ...], None] = {}
    for one in elements:
        for way in one.alternatives:
            keys = tuple(_keys(aspect, one, way))
            if not keys:
                return None
            found[keys] = None
    return tuple(found)


def _keys(aspect: NumberedAspect, element: MetElement, way: MetAlternative) -> Iterator[str]:
    for key in () if way.outer else element.checked.keys:
        if element.checked.alternatives[key.alternative] == way.checked and key.name in indexed(aspect):
            expression = _expression(element.checked, key)
            if expression is not None:
                yield key_of(aspect, key.name, expression)


def key_of(aspect: NumberedAspect, name: str, expression: str) -> str:
    """The number and the value of a key, as C, in the type in which the name was bound first."""
    return f"{indexed(aspect).index(name)}, (gilk_u64)(__typeof__({kept_symbols(aspect)[name]}))({expression})"

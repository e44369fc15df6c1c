# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a program whose calls aspects match, and the matching parts of the aspects; the C of code/ is made
from these values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gilk.lang.aspect.automaton import Automaton, Moment
from gilk.lang.aspect.checked import (
    CheckedAdvice,
    CheckedAlias,
    CheckedAlternative,
    CheckedAspect,
    CheckedBinding,
    CheckedElement,
    CheckedFile,
    CheckedFlow,
    CheckedFunction,
    CheckedType,
    last_of,
    outer_of,
)
from gilk.values import dataclass

#: The C for each value of an aspect, by its name in the aspect.
Symbols = dict[str, str]


@dataclass(frozen=True, slots=True)
class NumberedAspect:
    """An aspect of a file with its automaton, by its ``number``, from 0."""

    number: int
    checked: CheckedAspect
    automaton: Automaton

    @property
    def elements(self) -> tuple[CheckedElement, ...]:
        """The elements of the sequence, then those of ``until``."""
        return (*self.checked.elements, *self.checked.until)

    def moment(self, element: int, alternative: int) -> Moment:
        """The moment at which an alternative of an element matches; both are given by number, from 0."""
        one = (*self.automaton.elements, *self.automaton.until)[element]
        return one.moment(one.alternatives[alternative])

    @property
    def is_sequence(self) -> bool:
        """Whether an instance stays open after its first match."""
        return self.automaton.after(0) is not None

    @property
    def label(self) -> str:
        return self.automaton.name


@dataclass(frozen=True, slots=True)
class OuterFunction:
    """A function around the last event of a control flow. ``number``: the number of its MetFunction. ``code``: the
    offset in the state of the ranges of its code. ``point``: its declaration.
    """

    number: int
    code: int
    point: CheckedFunction


@dataclass(frozen=True, slots=True)
class MetAlternative:
    """One of the ways in which an element matches the function. ``outer``: for each outer call of a control flow,
    outermost first, the functions that it may be. ``callers``: offsets in the state of sets of code ranges; one of them
    must contain the return address. () allows every caller. ``walked``: for each outer call of a control flow that is
    looked for on the stack, innermost first, the offset of the ranges of the code of all functions that it may be;
    ``outer`` is () then. ``copied``: the calls are those of a copy of the function.
    """

    checked: CheckedAlternative
    outer: tuple[tuple[OuterFunction, ...], ...] = ()
    callers: tuple[int, ...] = ()
    walked: tuple[int, ...] = ()
    copied: bool = False

    @property
    def frameless(self) -> bool:
        """Whether the event is no call with an activation of its own."""
        return self.of_access or self.copied

    @property
    def strict(self) -> bool:
        return isinstance(self.checked.point, CheckedFlow) and self.checked.point.strict

    @property
    def alias(self) -> CheckedAlias | None:
        """The point, if it is memory found by its address; otherwise None."""
        return self.checked.point if isinstance(self.checked.point, CheckedAlias) else None

    @property
    def of_access(self) -> bool:
        """Whether the alternative matches accesses, not calls."""
        return not isinstance(last_of(self.checked.point), CheckedFunction)


@dataclass(frozen=True, slots=True)
class MetElement:
    """An element that matches calls of the function at ``moment``, by those of its alternatives that are listed, in
    order. ``members``: a bit for each group of which a thread has to be a member; 0 if all threads are.
    """

    aspect: NumberedAspect
    number: int
    moment: Moment
    alternatives: tuple[MetAlternative, ...]
    members: int = 0

    @property
    def checked(self) -> CheckedElement:
        return self.aspect.elements[self.number]

    @property
    def advice(self) -> CheckedAdvice | None:
        return self.checked.advice

    @property
    def value(self) -> CheckedType | None:
        """The type of the value that is read or written, in memory found by its address; None for other elements."""
        alias = self.alternatives[0].alias
        return value_of(alias) if alias is not None else None

    @property
    def is_until(self) -> bool:
        return self.number >= len(self.aspect.checked.elements)

    @property
    def name(self) -> str:
        """The part of names in C that identifies the element."""
        return f"{self.aspect.number}_{self.number}"

    @property
    def walks(self) -> bool:
        """Whether matching walks the stack."""
        return self.aspect.checked.verify or any(one.walked for one in self.alternatives)

    @property
    def place(self) -> str:
        """The part of names in C that identifies the element and its moment."""
        return f"{self.name}_{self.moment}"


class Met(Protocol):
    """The calls of a function, or the accesses of a variable, at which elements match, as far as the generators of C
    need them.
    """

    @property
    def point(self) -> CheckedFunction: ...

    @property
    def is_void(self) -> bool: ...

    @property
    def elements(self) -> tuple[MetElement, ...]: ...

    def at(self, moment: Moment) -> tuple[MetElement, ...]: ...


@dataclass(frozen=True, slots=True)
class MetFunction:
    """A ``function`` of ``image`` whose calls elements match. ``point`` is the first declaration of it that describes
    its parameters. ``number`` is unique in the process. ``tracked``: control flows ask whether it is under way.
    """

    number: int
    image: str
    function: str
    point: CheckedFunction
    elements: tuple[MetElement, ...]
    tracked: bool = False

    @property
    def is_void(self) -> bool:
        return self.point.result.text == "void"

    def at(self, moment: Moment) -> tuple[MetElement, ...]:
        return tuple(one for one in self.elements if one.moment is moment)

    @property
    def partial(self) -> bool:
        """Whether every aspect permits that calls of the function remain without advice."""
        return not self.tracked and all(one.aspect.checked.partial for one in self.elements)

    @property
    def observes_entries_only(self) -> bool:
        """Whether no advice waits for the return of the function or stands in its place."""
        return not self.tracked and all(
            one.moment is Moment.BEFORE and (one.advice is None or one.advice.when == "before") for one in self.elements
        )

    @property
    def waits(self) -> bool:
        """Whether anything needs to know when the function returns. If not, a call that nothing replaces goes on as if
        there were no advice, so the function may end in a jump to another.
        """
        return (
            self.tracked
            or bool(self.at(Moment.AFTER))
            or any(
                one.advice is not None and one.advice.when == "inplace" and "proceed" in one.advice.body.text
                for one in self.elements
            )
        )


def walked_for(elements: Sequence[MetElement]) -> tuple[str, ...]:
    """The names, as written, of the functions that the elements look for on the stack, in order of the text."""
    ways = (way for one in elements for way in one.alternatives if way.walked)
    return tuple(dict.fromkeys(outer.name for way in ways for outer in outer_of(way.checked.point)))


def verifies(elements: Sequence[MetElement]) -> bool:
    """Whether a match of one of the elements compares the calls that are recorded with the stack."""
    return any(one.aspect.checked.verify for one in elements)


def asks_threads(elements: Sequence[MetElement]) -> bool:
    """Whether a hit asks if its thread is a member of a group."""
    return any(one.members for one in elements)


def value_of(alias: CheckedAlias) -> CheckedType:
    """The type of ``value`` for memory found by its address: the type to which the pointer leads, or a word."""
    return alias.type if alias.type.size in (1, 2, 4, 8) else CheckedType("unsigned long", None, 8)


def numbered(file: CheckedFile, automata: Sequence[Automaton]) -> tuple[NumberedAspect, ...]:
    return tuple(NumberedAspect(n, *each) for n, each in enumerate(zip(file.aspects, automata, strict=True)))


def first_binders(aspect: NumberedAspect) -> dict[str, tuple[int, int, CheckedBinding]]:
    """The first binding of each name that instances keep: the numbers of the element and of the alternative, and the
    step.
    """
    kept = {one.name for one in aspect.checked.kept}
    found: dict[str, tuple[int, int, CheckedBinding]] = {}
    for number, element in enumerate(aspect.checked.elements):
        for which, alternative in enumerate(element.alternatives):
            for step in alternative.steps:
                if isinstance(step, CheckedBinding) and step.name in kept and not step.test and not element.repeated:
                    found.setdefault(step.name, (number, which, step))
    return found


def uncertain(aspect: NumberedAspect) -> tuple[str, ...]:
    """The kept names that an instance may lack because only some alternatives bind them. Each has a bit in
    the record.
    """
    return tuple(
        name
        for name, (number, _, _) in first_binders(aspect).items()
        if not all(_binds(each, name) for each in aspect.elements[number].alternatives)
    )


def _binds(alternative: CheckedAlternative, name: str) -> bool:
    return any(isinstance(one, CheckedBinding) and one.name == name for one in alternative.steps)

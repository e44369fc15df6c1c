# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects with their meaning: what each element matches, binds and tests, where it lies, what it runs.

Named pointcuts have been replaced by their matches, and names by those that they have at their use. C is text, with its
place in the file; ``type`` is None of what only a compiler can tell the type of.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from gilk.lang.syntax.source import Diagnostic, Source, Span
from gilk.lang.types import Type
from gilk.values import dataclass

#: The group that is the kernel.
KERNEL_GROUP = "K"


@dataclass(frozen=True, slots=True)
class CheckedC:
    """``names``: identifiers in it, in order of appearance, without members of structs."""

    text: str
    span: Span
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedType:
    """A type in C as written, ``char *[4]``; "" is that of the expression which it is bound to.

    ``size``: in bytes, None where it is not known without the program's own types. ``type``: None likewise.
    """

    text: str
    type: Type | None = None
    size: int | None = None


class BindingSource(StrEnum):
    """The kinds of values that names are bound to."""

    ARGUMENT = "argument"
    RETURN = "return"
    VALUE = "value"
    OLD = "old"
    SIZE = "size"
    OFFSET = "offset"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class CheckedBinding:
    """``number``: of an argument, from 0. ``function``: of the function whose argument it is, among those that the join
    point names, outermost first. ``expression``: of BindingSource.EXPRESSION only.

    ``test``: the name is bound already by an element before; then the values must be equal.
    """

    name: str
    type: CheckedType
    source: BindingSource
    span: Span
    test: bool = False
    number: int = 0
    function: int = 0
    expression: CheckedC | None = None


@dataclass(frozen=True, slots=True)
class CheckedFunction:
    """``image`` is "" where none is named. ``exact``: neither is a glob. ``parameters``: None of any."""

    image: str
    name: str
    exact: bool
    result: CheckedType
    parameters: tuple[CheckedType, ...] | None
    variadic: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedGlobal:
    """``path``: the variable, and members with dots."""

    write: bool
    image: str
    path: str
    type: CheckedType
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedAlias:
    """Memory that the name ``address`` leads to. ``length``: None is the size of ``type``, which it points to."""

    write: bool
    address: str
    length: CheckedC | None
    type: CheckedType
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedFlow:
    """``outer`` are outermost first."""

    strict: bool
    outer: tuple[CheckedFunction, ...]
    last: CheckedFunction | CheckedGlobal
    span: Span


CheckedPoint: TypeAlias = CheckedFunction | CheckedGlobal | CheckedAlias | CheckedFlow


def last_of(point: CheckedPoint) -> CheckedFunction | CheckedGlobal | CheckedAlias:
    """The call or access that happens at the join point: the last of a control flow, else the point itself."""
    return point.last if isinstance(point, CheckedFlow) else point


def outer_of(point: CheckedPoint) -> tuple[CheckedFunction, ...]:
    """The functions that a control flow has around its last, outermost first; () of other join points."""
    return point.outer if isinstance(point, CheckedFlow) else ()


@dataclass(frozen=True, slots=True)
class CheckedCode:
    """A pattern of ``from`` or ``in``: a function, or where ``image`` is named and ``function`` is "", an image.

    A lone name may be either, and is in ``either``.
    """

    image: str
    function: str
    either: str = ""


@dataclass(frozen=True, slots=True)
class CheckedDemand:
    condition: CheckedC


#: In the order in which they are looked at: that of the text, arguments first.
CheckedStep: TypeAlias = CheckedBinding | CheckedDemand


@dataclass(frozen=True, slots=True)
class CheckedAlternative:
    """One of the ways in which an element can match; all of ``steps`` must hold.

    ``returns``: it matches when the function returns, for it binds what is returned.
    """

    point: CheckedPoint
    steps: tuple[CheckedStep, ...]
    callers: tuple[CheckedCode, ...]
    within: tuple[CheckedCode, ...]
    returns: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedAdvice:
    """``when`` is before, inplace or after. ``block``: the text has its braces; else it is one call."""

    when: str
    body: CheckedC
    block: bool


@dataclass(frozen=True, slots=True)
class AspectKey:
    """An instance goes on only if ``name``, which it has bound, equals ``expression``, which the event tells.

    ``alternative``: the number of the alternative, whose test this is.
    """

    name: str
    expression: str
    alternative: int
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedElement:
    """``places`` are groups, KERNEL_GROUP among them; () is every process that the file is woven into.

    ``fresh``: names that each match of it binds anew, and no other element sees: those that a repeated element is the
    first to bind. ``keys`` are (of each alternative) those by which instances can be found.
    """

    places: tuple[str, ...]
    alternatives: tuple[CheckedAlternative, ...]
    advice: CheckedAdvice | None
    repeated: bool
    fresh: tuple[str, ...]
    keys: tuple[AspectKey, ...]
    span: Span

    @property
    def kernel(self) -> bool:
        return KERNEL_GROUP in self.places


@dataclass(frozen=True, slots=True)
class CheckedWord:
    """A word of an instance that advice may write; without ``initial`` it begins as 0."""

    name: str
    type: CheckedType
    initial: CheckedC | None
    span: Span


@dataclass(frozen=True, slots=True)
class KeptName:
    """A name that an instance keeps from one step to a later one."""

    name: str
    type: CheckedType


@dataclass(frozen=True, slots=True)
class CheckedAspect:
    """``name`` is "" of one without. ``sequence``: it is written as one; else it has one element.

    ``within``: nanoseconds, None without. ``instances``: None where the aspect does not say. ``unique``: None likewise.
    ``kept``: what an instance keeps of what it binds, in order of binding; its words are beside that.
    """

    name: str
    elements: tuple[CheckedElement, ...]
    sequence: bool
    until: tuple[CheckedElement, ...]
    within: int | None
    unique: tuple[str, ...] | None
    instances: int | None
    words: tuple[CheckedWord, ...]
    kept: tuple[KeptName, ...]
    perthread: bool
    perprocess: bool
    partial: bool
    verify: bool
    walk: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedTable:
    name: str
    key: tuple[CheckedType, ...]
    fold: str


@dataclass(frozen=True, slots=True)
class CheckedGroup:
    """``of``: the groups that it consists of, to the last; () of one whose processes are named when it is woven."""

    name: str
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """``process_c`` and ``kernel_c``: the file's own C, in order."""

    source: Source
    groups: tuple[CheckedGroup, ...]
    tables: tuple[CheckedTable, ...]
    types: tuple[str, ...]
    process_c: tuple[CheckedC, ...]
    kernel_c: tuple[CheckedC, ...]
    aspects: tuple[CheckedAspect, ...]


@dataclass(frozen=True, slots=True)
class AspectCheck:
    """``file`` is None where there are errors. Both are in the order of the text."""

    file: CheckedFile | None
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...] = ()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects with their meaning, as the passes of meaning/ make them: what each element matches, binds and tests, where it
applies, and what it runs.

Named pointcuts are replaced by their matches, with the names of their uses. C is text, with its place in the file;
``type`` is None if only a compiler can tell it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from gilk.lang.aspect.cnames import calls
from gilk.lang.syntax.source import Diagnostic, Source, Span
from gilk.lang.types import Type
from gilk.values import dataclass

#: The name of the group that is the kernel.
KERNEL_GROUP = "K"


@dataclass(frozen=True, slots=True)
class CheckedC:
    """A fragment of C. ``names``: the identifiers in it, in order of appearance, without members of structs."""

    text: str
    span: Span
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedType:
    """A type in C as written, ``char *[4]``; "" stands for the type of the expression to which the name is bound.

    ``size`` is in bytes. ``type`` and ``size`` are None if they are not known without the program's own types.
    """

    text: str
    type: Type | None = None
    size: int | None = None


class BindingSource(StrEnum):
    """The kinds of values to which names are bound."""

    ARGUMENT = "argument"
    RETURN = "return"
    VALUE = "value"
    OLD = "old"
    SIZE = "size"
    OFFSET = "offset"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class CheckedBinding:
    """The binding of a name. ``number``: that of an argument, from 0. ``function``: the function whose argument it is,
    by its number among the functions that the join point names, outermost first. ``expression``: for
    BindingSource.EXPRESSION only.

    ``test``: an earlier element, or an earlier step, has bound the name; then the values must be equal.
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
    """The functions that a join point names. ``image`` is "" if none is named. ``exact``: ``name`` is not a glob.
    ``parameters`` is None for any parameters.
    """

    image: str
    name: str
    exact: bool
    result: CheckedType
    parameters: tuple[CheckedType, ...] | None
    variadic: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedGlobal:
    """Accesses of a variable. ``path``: the variable, and members with dots."""

    write: bool
    image: str
    path: str
    type: CheckedType
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedAlias:
    """Accesses of the memory to which the name ``address`` leads. ``length``: None stands for the size of ``type``, to
    which the name points.
    """

    write: bool
    address: str
    length: CheckedC | None
    type: CheckedType
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedFlow:
    """A control flow; the functions ``outer`` are outermost first."""

    strict: bool
    outer: tuple[CheckedFunction, ...]
    last: CheckedFunction | CheckedGlobal
    span: Span


CheckedPoint: TypeAlias = CheckedFunction | CheckedGlobal | CheckedAlias | CheckedFlow


def last_of(point: CheckedPoint) -> CheckedFunction | CheckedGlobal | CheckedAlias:
    """The call or access that happens at the join point: the last of a control flow, otherwise the point itself."""
    return point.last if isinstance(point, CheckedFlow) else point


def outer_of(point: CheckedPoint) -> tuple[CheckedFunction, ...]:
    """The functions that a control flow has around its last event, outermost first; () for other join points."""
    return point.outer if isinstance(point, CheckedFlow) else ()


@dataclass(frozen=True, slots=True)
class CheckedCode:
    """A pattern of ``from`` or ``in``: a function, or an image if ``image`` is named and ``function`` is "".

    A name that stands alone may be either, and is in ``either``.
    """

    image: str
    function: str
    either: str = ""


@dataclass(frozen=True, slots=True)
class CheckedDemand:
    condition: CheckedC


#: A step of an alternative. Steps are taken in the order of the text, arguments first.
CheckedStep: TypeAlias = CheckedBinding | CheckedDemand


@dataclass(frozen=True, slots=True)
class CheckedAlternative:
    """One of the ways in which an element can match; all of ``steps`` must hold.

    ``returns``: it matches when the function returns, because it binds the returned value.
    """

    point: CheckedPoint
    steps: tuple[CheckedStep, ...]
    callers: tuple[CheckedCode, ...]
    within: tuple[CheckedCode, ...]
    returns: bool
    span: Span

    @property
    def step_names(self) -> set[str]:
        """The names that the steps bind or use."""
        found = set[str]()
        for step in self.steps:
            if isinstance(step, CheckedDemand):
                found |= set(step.condition.names)
            else:
                found |= {step.name, *(step.expression.names if step.expression is not None else ())}
        return found


@dataclass(frozen=True, slots=True)
class CheckedAdvice:
    """Advice. ``when`` is before, inplace or after. ``block``: the text is a block with its braces; otherwise it is one
    call.
    """

    when: str
    body: CheckedC
    block: bool


@dataclass(frozen=True, slots=True)
class AspectKey:
    """An equality by which instances are found: an instance goes on only if the bound ``name`` equals ``expression``,
    whose value the event gives.

    ``alternative``: the number of the alternative that asks for it.
    """

    name: str
    expression: str
    alternative: int
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedElement:
    """An element. ``places`` are groups, perhaps with KERNEL_GROUP; () is every process into which the file is woven.

    ``fresh``: for a repeated element, the names that each match binds anew and that no other element sees. ``keys``:
    the equalities, of each alternative, by which instances can be found.
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
        """Whether the element is placed in the kernel; it may be in processes, too."""
        return KERNEL_GROUP in self.places

    @property
    def processes(self) -> bool:
        """Whether the element is placed in processes; it may be in the kernel, too."""
        return not self.places or any(one != KERNEL_GROUP for one in self.places)

    def is_on(self, kernel: bool) -> bool:
        """Whether the element is on that side: in the ``kernel``, or in processes."""
        return self.kernel if kernel else self.processes


@dataclass(frozen=True, slots=True)
class CheckedWord:
    """A word of an instance, which advice may write; it begins as 0 if ``initial`` is None."""

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
    """An aspect. ``name`` is "" if it has none. ``sequence``: it is written as a sequence; otherwise it has one
    element.

    ``within`` is in nanoseconds, None without limit. ``instances`` and ``unique`` are None if the aspect does not have
    the option. ``kept``: the bound names that an instance keeps, in order of binding; its words come in addition.
    ``debugreg``: debug registers show its accesses of variables.
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
    debugreg: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CheckedTable:
    name: str
    key: tuple[CheckedType, ...]
    fold: str


@dataclass(frozen=True, slots=True)
class CheckedGroup:
    """A group. ``of``: the groups of which it consists, resolved; () for a group whose processes are named when it is
    woven.
    """

    name: str
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file of aspects. ``process_c`` and ``kernel_c``: the parts of the file's own C, in order. ``of_threads``:
    single threads are members of groups from the beginning.
    """

    source: Source
    groups: tuple[CheckedGroup, ...]
    tables: tuple[CheckedTable, ...]
    types: tuple[str, ...]
    process_c: tuple[CheckedC, ...]
    kernel_c: tuple[CheckedC, ...]
    aspects: tuple[CheckedAspect, ...]
    of_threads: bool = False

    @property
    def regroups(self) -> bool:
        """Whether a thread may be a member of other groups than its process: advice has processes and threads join
        groups and leave them, or single threads are members from the beginning.
        """
        if self.of_threads:
            return True
        advice = (element.advice for one in self.aspects for element in (*one.elements, *one.until))
        texts = [one.body.text for one in advice if one is not None]
        return any(True for text in texts for word in ("join", "leave") for _ in calls(text, word))


@dataclass(frozen=True, slots=True)
class AspectCheck:
    """The result of checking a file. ``file`` is None if there are errors. Errors and warnings are in the order of the
    text.
    """

    file: CheckedFile | None
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...] = ()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""An aspect as an automaton: its elements, when each is active, and what each tests, binds and runs.

A single aspect is a sequence of one element. A position is the number of the element that an instance waits for, from 1
on; at position 0 no instance has begun. A repeated element is active together with the element after it, so several may
be active at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias

from gilk.values import dataclass

#: The number of instances that may be open at once if the aspect does not say.
INSTANCES = 4096
#: The name of the group that is the kernel.
KERNEL = "K"


class Moment(StrEnum):
    """The moment of an event at which an element can match. BEFORE is the entry of a call or the instant ahead of an
    access; AFTER is the return of a call or the instant behind an access.
    """

    BEFORE = "before"
    AFTER = "after"


class Advising(StrEnum):
    """The place of advice in relation to the call or access that it advises."""

    BEFORE = "before"
    INPLACE = "inplace"
    AFTER = "after"


class Sharing(StrEnum):
    """The threads that may continue an instance: those of all members, those of the process that began it, or only the
    thread that began it.
    """

    ANY = "any member"
    PROCESS = "perprocess"
    THREAD = "perthread"


class Gives(StrEnum):
    """The kinds of values that an event itself gives to a name."""

    RETURN = "return"
    VALUE = "value"
    OLD = "old"
    SIZE = "size"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class BoundName:
    """A name that a match binds. ``ctype`` is its type in C, as written: ``char [256]``, ``struct in6_addr``."""

    name: str
    ctype: str


@dataclass(frozen=True, slots=True)
class Calling:
    """Calls of the functions that match the glob ``function``, in images that match the glob ``image``; "" is any
    image.

    ``parameters`` are in order; a parameter that is not bound has the name "". ``exact``: ``function`` is a name, not a
    glob.
    """

    function: str
    parameters: tuple[BoundName, ...] = ()
    image: str = ""
    result: str = "void"
    exact: bool = False


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """Reads or writes of a variable, or of a member of one. ``variable`` is the path, with dots."""

    write: bool
    variable: str
    image: str = ""
    ctype: str = "long"


@dataclass(frozen=True, slots=True)
class AliasAccess:
    """Reads or writes of the memory to which the pointer ``address`` leads; it is a name of the aspect.

    ``length``: the length of the memory in bytes, as a C expression; "" is the size of ``ctype``, the type to which the
    name points.
    """

    write: bool
    address: str
    length: str = ""
    ctype: str = "long"


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """A control flow: the event ``last`` within calls of the functions ``outer``, outermost first. ``strict``: each
    function is called directly by the one before it.
    """

    strict: bool
    outer: tuple[Calling, ...]
    last: Calling | GlobalAccess


JoinPoint: TypeAlias = Calling | GlobalAccess | AliasAccess | ControlFlow


def is_access(point: JoinPoint) -> bool:
    """Whether the event is an access of a named variable."""
    return isinstance(point.last if isinstance(point, ControlFlow) else point, GlobalAccess)


@dataclass(frozen=True, slots=True)
class Take:
    what: Gives
    name: BoundName


@dataclass(frozen=True, slots=True)
class Compute:
    name: BoundName
    expression: str


@dataclass(frozen=True, slots=True)
class Demand:
    expression: str


Qualifying: TypeAlias = Take | Compute | Demand


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the ways in which an element can match. ``callers`` and ``within`` are globs of functions, perhaps with an
    image before a colon; if there are none, every caller and all code will do.
    """

    point: JoinPoint
    qualifiers: tuple[Qualifying, ...] = ()
    callers: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    @property
    def returns(self) -> bool:
        return any(isinstance(one, Take) and one.what is Gives.RETURN for one in self.qualifiers)

    @property
    def binds(self) -> tuple[BoundName, ...]:
        """The names that the alternative binds or tests, in order: arguments, outermost function first, then
        qualifiers.
        """
        named = [one.name for one in self.qualifiers if not isinstance(one, Demand)]
        return (*(one for one in parameters(self.point) if one.name), *named)


@dataclass(frozen=True, slots=True)
class AdviceCode:
    """Advice. ``text`` is a block of C, or one call."""

    when: Advising
    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an aspect. ``places`` are groups; none means all processes. ``line`` is the element's line in the
    file, 0 if it is in no file. ``seen_late``: accesses of variables are seen only when they have been made.
    """

    alternatives: tuple[Alternative, ...]
    advice: AdviceCode | None = None
    star: bool = False
    places: tuple[str, ...] = ()
    line: int = 0
    seen_late: bool = False

    def moment(self, alternative: Alternative) -> Moment:
        after = self.advice is not None and self.advice.when is Advising.AFTER
        late = self.seen_late and is_access(alternative.point)
        return Moment.AFTER if after or late or alternative.returns else Moment.BEFORE


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an instance, which advice may write; ``initial`` is a C expression."""

    name: BoundName
    initial: str = "0"


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition: ``element`` takes an instance from position ``source`` to ``target``; None means that the instance
    ends.
    """

    source: int
    element: int
    target: int | None


@dataclass(frozen=True, slots=True)
class Automaton:
    """An aspect as an automaton. ``within`` is the longest life of an instance in nanoseconds, None without limit.
    ``unique``: the names by which instances replace each other; None if equal instances live side by side. Advice may
    write the ``words``. ``instances``: how many may be open at once; ``bounded``: the aspect itself says so. ``file``:
    the file of the aspect; calls and accesses in advice match no aspect of the same file. ``walk``: control flows are
    looked for on the stack; ``verify``: each match compares the calls that are recorded with the stack. ``debugreg``:
    accesses of variables are seen by debug registers.
    """

    name: str
    elements: tuple[Element, ...]
    until: tuple[Element, ...] = ()
    within: int | None = None
    unique: tuple[str, ...] | None = None
    sharing: Sharing = Sharing.ANY
    instances: int = INSTANCES
    bounded: bool = False
    words: tuple[Word, ...] = ()
    file: str = ""
    walk: bool = False
    verify: bool = False
    debugreg: bool = False

    def active(self, position: int) -> tuple[int, ...]:
        """The elements that may continue an instance at ``position``, in the order in which they are tried, the last
        first. So the element after a repeated one ends the repetition, whatever else matches.
        """
        last = position
        while self.elements[last].star:
            last += 1
        return tuple(range(last, position - 1, -1))

    def after(self, element: int) -> int | None:
        """The position after a match of ``element``; None if the match ends the instance. A repeated element stays
        active.
        """
        if self.elements[element].star:
            return element
        return element + 1 if element + 1 < len(self.elements) else None

    @property
    def transitions(self) -> Iterator[Transition]:
        """The transitions that can be reached, by position, and of one position in the order in which they
        are tried.
        """
        positions, done = [0], set[int]()
        while positions:
            source = positions.pop(0)
            done.add(source)
            for element in self.active(source):
                target = self.after(element)
                yield Transition(source, element, target)
                if target is not None and target not in done and target not in positions:
                    positions.append(target)


def calling(point: JoinPoint) -> tuple[Calling, ...]:
    """The functions that ``point`` names, outermost first."""
    match point:
        case Calling():
            return (point,)
        case ControlFlow(outer=outer, last=last):
            return (*outer, *calling(last))
    return ()


def parameters(point: JoinPoint) -> tuple[BoundName, ...]:
    """The parameters of the functions that ``point`` names, outermost function first, including those that are not
    bound.
    """
    return tuple(one for function in calling(point) for one in function.parameters)

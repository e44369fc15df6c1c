# SPDX-License-Identifier: LGPL-2.1-or-later
"""An aspect as an automaton: its elements, which of them are active when, what each tests, binds and runs.

A single aspect is a sequence of one element. A position is the number of the element that an instance waits for, from 1
on; at 0 none has begun. A repeated element is active together with the one behind it, so several may be active at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias

from gilk.values import dataclass

#: Instances that may be open at once where the aspect does not say.
INSTANCES = 4096
#: The group that is the kernel.
KERNEL = "K"


class Moment(StrEnum):
    """When an element can match: at the entry of a call or ahead of an access, or at the return or behind it."""

    BEFORE = "before"
    AFTER = "after"


class Advising(StrEnum):
    """Where advice stands to what it advises."""

    BEFORE = "before"
    INPLACE = "inplace"
    AFTER = "after"


class Sharing(StrEnum):
    """The threads that may continue an instance: all members', those of its process, or the one that began it."""

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
    """``ctype`` is its type in C, as written: ``char [256]``, ``struct in6_addr``."""

    name: str
    ctype: str


@dataclass(frozen=True, slots=True)
class Calling:
    """Calls of the functions that the glob ``function`` matches, in images that ``image`` does; "" is any image.

    ``parameters`` are in order; the name of one that is not bound is "". ``exact``: it is a name, not a glob.
    """

    function: str
    parameters: tuple[BoundName, ...] = ()
    image: str = ""
    result: str = "void"
    exact: bool = False


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """Reads or writes of a variable, or of a member of one: ``variable`` is the path, with dots."""

    write: bool
    variable: str
    image: str = ""
    ctype: str = "long"


@dataclass(frozen=True, slots=True)
class AliasAccess:
    """Reads or writes of the memory that the name ``address`` leads to.

    ``length``: in bytes, as a C expression; "" is the size of ``ctype``, which the name points to.
    """

    write: bool
    address: str
    length: str = ""
    ctype: str = "long"


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """``last``, within calls of ``outer``, outermost first; if ``strict``, each called by the one before it itself."""

    strict: bool
    outer: tuple[Calling, ...]
    last: Calling | GlobalAccess


JoinPoint: TypeAlias = Calling | GlobalAccess | AliasAccess | ControlFlow


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
    """One of the ways in which an element can match. ``callers`` and ``within`` are globs, of functions or with an
    image before a colon; where there are none, every caller and all code will do.
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
        """The names that it binds or tests, in order: arguments, outermost function first, then qualifiers."""
        named = [one.name for one in self.qualifiers if not isinstance(one, Demand)]
        return (*(one for one in parameters(self.point) if one.name), *named)


@dataclass(frozen=True, slots=True)
class AdviceCode:
    """``text`` is a block of C, or one call."""

    when: Advising
    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """``places`` are groups; none are all processes. ``line`` is that of the file, 0 if it stands in none."""

    alternatives: tuple[Alternative, ...]
    advice: AdviceCode | None = None
    star: bool = False
    places: tuple[str, ...] = ()
    line: int = 0

    def moment(self, alternative: Alternative) -> Moment:
        after = self.advice is not None and self.advice.when is Advising.AFTER
        return Moment.AFTER if after or alternative.returns else Moment.BEFORE


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an instance that advice may write; ``initial`` is a C expression."""

    name: BoundName
    initial: str = "0"


@dataclass(frozen=True, slots=True)
class Transition:
    """An instance at position ``source`` goes to ``target`` by ``element``; there it ends if that is None."""

    source: int
    element: int
    target: int | None


@dataclass(frozen=True, slots=True)
class Automaton:
    """``within`` is in nanoseconds, None without limit. ``unique``: None where equal instances live side by side.

    ``words`` are written by advice. ``instances``: how many may be open at once; ``bounded``: the aspect says so.
    ``file``: join points in advice match in no aspect of the same file.
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

    def active(self, position: int) -> tuple[int, ...]:
        """The elements that may continue an instance there, in the order in which they are tried: the last first.

        So the element behind a repeated one ends the repetition, whatever else matches.
        """
        last = position
        while self.elements[last].star:
            last += 1
        return tuple(range(last, position - 1, -1))

    def after(self, element: int) -> int | None:
        """The position behind it; None if that ends the instance. A repeated element stays active."""
        if self.elements[element].star:
            return element
        return element + 1 if element + 1 < len(self.elements) else None

    @property
    def transitions(self) -> Iterator[Transition]:
        """Those that can be reached, by position; of one position in the order in which they are tried."""
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
    """The functions that it names, outermost first."""
    match point:
        case Calling():
            return (point,)
        case ControlFlow(outer=outer, last=last):
            return (*outer, *calling(last))
    return ()


def parameters(point: JoinPoint) -> tuple[BoundName, ...]:
    """Those of the functions that it names, outermost first; also of those that are not bound."""
    return tuple(one for function in calling(point) for one in function.parameters)

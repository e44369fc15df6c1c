# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program with its meaning: its clauses, and what each does as a function of lang/ir.py.

The checker makes it; later passes, the engine and the printers read it.
"""

from __future__ import annotations

from dataclasses import field
from itertools import accumulate

from gilk.lang.d.stability import USUAL, Attributes, ProviderAttributes
from gilk.lang.data import Aggregation
from gilk.lang.ir import Data as Data  # under the name by which consumers know it
from gilk.lang.ir import Function
from gilk.lang.syntax.source import Span
from gilk.lang.types import Type
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause. ``function`` has the clause's number, in the order of the text. ``attributes``: the lowest stability of
    all that the clause uses. For each of its descriptions, ``lines`` has the line in its file and ``places`` the place
    in its text.
    """

    span: Span
    probes: tuple[str, ...]
    function: Function
    attributes: Attributes = USUAL
    lines: tuple[int, ...] = ()
    places: tuple[Span, ...] = ()

    @property
    def number(self) -> int:
        """The number of the clause, from 1."""
        return self.function.number

    def place(self, name: str) -> int:
        """The number, from 0, of the description that names that probe; 0 if none has exactly that name."""
        last = [text.rpartition(":")[2] for text in self.probes]
        return last.index(name) if name in last else 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable. ``offset``: its offset in the globals or in the clause-local memory. ``number``: that of a variable
    that is looked up.
    """

    name: str
    scope: str
    type: Type
    keys: tuple[Type, ...] | None = None
    offset: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class NamedLocal:
    """A variable of the functions at the program's probes: its ``address``, or else its value. ``function``: the
    inlined function whose variable it is, "" for the function that the probe names.
    """

    name: str
    function: str = ""
    address: bool = False


@dataclass(frozen=True, slots=True)
class Interface:
    """A provider that the program defines: its probes by their names in C, each with the types of its arguments."""

    name: str
    probes: tuple[tuple[str, tuple[Type, ...]], ...]


@dataclass(frozen=True)
class Program:
    """A checked program. ``destructive``: the place of its first destructive action, None if it has none. ``stacks``:
    it looks at the stack of the process. ``interfaces``: the providers that it, or a library, defines. ``providers``:
    the stability of providers that pragmas state. ``scratchsize``: the bytes that alloca() and copyin() may take in a
    clause. ``locals``: the variables of functions that it names, by the numbers of ir.Local.
    """

    clauses: tuple[Clause, ...]
    variables: tuple[Variable, ...]
    aggregations: tuple[Aggregation, ...]
    globals_size: int
    this_size: int
    destructive: Span | None = None
    strsize: int = 256
    scratchsize: int = 64 << 10
    stacks: bool = False
    interfaces: tuple[Interface, ...] = ()
    providers: dict[str, ProviderAttributes] = field(default_factory=dict)
    locals: tuple[NamedLocal, ...] = ()

    @property
    def firsts(self) -> tuple[int, ...]:
        """By place of a clause in ``clauses``: the number, from 0, that DTrace gives to its first description; DTrace
        counts a clause once for each description. The tuple has one more number than there are clauses.
        """
        return (0, *accumulate(len(clause.probes) for clause in self.clauses))

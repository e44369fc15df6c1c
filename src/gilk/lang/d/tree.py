# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program once it is known what everything in it means: clauses, and what each does as a function of lang/ir.py.

The checker makes it; the passes behind it, the engine and the printers read it.
"""

from __future__ import annotations

from dataclasses import field
from itertools import accumulate

from gilk.lang.d.stability import USUAL, Attributes, ProviderAttributes
from gilk.lang.data import Aggregation
from gilk.lang.ir import Data as Data  # as consumers know it
from gilk.lang.ir import Function
from gilk.lang.syntax.source import Span
from gilk.lang.types import Type
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Clause:
    """``function`` has its number, in the order of the text. ``attributes``: the lowest of all that it uses.
    ``lines``: of its file, where each of its descriptions stands; ``places``: of its text.
    """

    span: Span
    probes: tuple[str, ...]
    function: Function
    attributes: Attributes = USUAL
    lines: tuple[int, ...] = ()
    places: tuple[Span, ...] = ()

    @property
    def number(self) -> int:
        """From 1."""
        return self.function.number

    def place(self, name: str) -> int:
        """Which of its descriptions names that probe, from 0; 0 where none does so as it is."""
        last = [text.rpartition(":")[2] for text in self.probes]
        return last.index(name) if name in last else 0


@dataclass(frozen=True, slots=True)
class Variable:
    """``offset`` in the globals or in the clause-local memory; of those that are looked up, the ``number``."""

    name: str
    scope: str
    type: Type
    keys: tuple[Type, ...] | None = None
    offset: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """A provider that is defined: its probes by their names in C, each with the types of what it is given."""

    name: str
    probes: tuple[tuple[str, tuple[Type, ...]], ...]


@dataclass(frozen=True)
class Program:
    """``destructive``: it has such actions, and where the first. ``stacks``: it looks at the stack of the process.
    ``interfaces``: providers that it, or a library, defines. ``providers``: those of which it says how stable they are.
    """

    clauses: tuple[Clause, ...]
    variables: tuple[Variable, ...]
    aggregations: tuple[Aggregation, ...]
    globals_size: int
    this_size: int
    destructive: Span | None = None
    strsize: int = 256
    stacks: bool = False
    interfaces: tuple[Interface, ...] = ()
    providers: dict[str, ProviderAttributes] = field(default_factory=dict)

    @property
    def firsts(self) -> tuple[int, ...]:
        """By place of a clause: the number, from 0, that DTrace gives what its first description has it do. It counts
        the clause once for each description."""
        return (0, *accumulate(len(clause.probes) for clause in self.clauses))

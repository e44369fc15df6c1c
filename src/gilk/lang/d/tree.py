# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program once it is known what everything in it means: expressions with their types, clauses with their data.

What the checker makes and the code generator reads. Conversions are explicit: both operands of an operator have the
type that it works in.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from gilk.lang.d.stability import USUAL, Attributes, ProviderAttributes
from gilk.lang.data import Aggregation, Datum
from gilk.lang.syntax.source import Span
from gilk.lang.types import String, Translated, Type
from gilk.values import dataclass

# Expressions.


@dataclass(frozen=True, slots=True)
class Constant:
    type: Type
    value: int


@dataclass(frozen=True, slots=True)
class Literal:
    value: str
    type: String = field(default_factory=String)


@dataclass(frozen=True, slots=True)
class Builtin:
    """A variable of D's own, which the event supplies; ``index`` of ``uregs[]`` and ``$`` the like."""

    type: Type
    name: str
    index: Expression | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A variable at a fixed place: ``scope`` "global" or "this", ``offset`` in the memory of that scope."""

    type: Type
    scope: str
    offset: int


@dataclass(frozen=True, slots=True)
class Keyed:
    """A thread-local variable, or an element of an associative array: ``self_`` keys it by thread."""

    type: Type
    variable: int
    self_: bool
    keys: tuple[Expression, ...]
    layout: tuple[Datum, ...]
    key_size: int


@dataclass(frozen=True, slots=True)
class Field:
    """Memory of the process at an address, or a part of it; ``bits`` and ``shift`` of a bit-field."""

    type: Type
    address: Expression
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Of a variable that is an array or a struct: ``offset`` bytes into it, and further by each of ``indices``:
    an expression that must be below a count, times a size in bytes. ``bits`` and ``shift`` of a bit-field.
    """

    type: Type
    whole: Place | Keyed
    offset: int
    indices: tuple[tuple[Expression, int, int], ...] = ()
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Unary:
    type: Type
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, and comparisons of integers or strings; ``&&``, ``||`` and ``^^``."""

    type: Type
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    type: Type
    test: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Convert:
    type: Type
    operand: Expression


@dataclass(frozen=True, slots=True)
class Assign:
    """``operator`` is that of a compound assignment, "" for none; it works in the type of ``value``."""

    type: Type
    target: Target
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Step:
    """``++`` and ``--``, by ``by``; ``before``: its value is what it has become."""

    type: Type
    target: Target
    by: int
    before: bool


@dataclass(frozen=True, slots=True)
class Comma:
    type: Type
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Bound:
    """A parameter of an inline or of a translator, whose value a Let of that number gives."""

    type: Type
    number: int


@dataclass(frozen=True, slots=True)
class Let:
    """``body``, in which each Bound of a number has the value next to it, which is computed once, before."""

    type: Type
    bindings: tuple[tuple[int, Expression], ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Xlate:
    """``operand`` as the translator of that number sees it. Only its members have values: no code is made of it.
    ``bindings`` are those of a Let around it.
    """

    type: Translated
    translator: int
    operand: Expression
    bindings: tuple[tuple[int, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Of a subroutine: something with a value, and without an effect outside of D's memory."""

    type: Type
    name: str
    arguments: tuple[Expression, ...]


#: A Field is one in scratch memory, or else a fault.
Target: TypeAlias = Place | Keyed | Part | Field
Expression: TypeAlias = (
    Constant | Literal | Builtin | Place | Keyed | Field | Part | Unary | Binary | Conditional | Convert
    | Assign | Step | Comma | Bound | Let | Xlate | Call
)  # fmt: skip

# Statements.


@dataclass(frozen=True, slots=True)
class Evaluate:
    expression: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    aggregation: Aggregation
    keys: tuple[Expression, ...]
    value: Expression | None
    weight: Expression | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Something for the consumer: what it is to do, with what values of the record.

    ``text``: a format, a file name. ``aggregations``: names of those that it is about. ``shown``: for print(), the type
    of what is in memory.
    """

    action: str
    data: tuple[Datum, ...] = ()
    values: tuple[Expression, ...] = ()
    text: str | None = None
    aggregations: tuple[str, ...] = ()
    shown: Type | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done there and then: speculate(), raise(), stop(), copyout()..."""

    action: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class If:
    test: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement: TypeAlias = Evaluate | Aggregate | Data | Act | If

# Programs.


@dataclass(frozen=True, slots=True)
class Clause:
    """``number`` from 1, in the order of the text. ``attributes``: the lowest of all that it uses."""

    number: int
    span: Span
    probes: tuple[str, ...]
    predicate: Expression | None
    statements: tuple[Statement, ...]
    attributes: Attributes = USUAL


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

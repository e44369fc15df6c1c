# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computations at a probe: the form between languages, which make it, and printers, which make code of it.

A tree of frozen values. A *function* runs at a probe: a guard, then statements in order. An *expression* has a type and
a value of 64 bits at most, or is a string, or memory of a known size. There are no loops and no calls of functions of
the program's own: the longest way through a function is known beforehand.

Conversions are explicit: both operands of an operator have the type that it works in. Operands are evaluated from left
to right. An operation that cannot be done ends the function: division by zero, an index beyond its bound, memory that
is not there. The changes that it made until then stay, its records are discarded, and the fault is told.

Whatever a node needs of the machine, or does with it, lang/facts.py tells, never the code that is printed of it. A new
operation is a row in lang/operations.py; a new node is a class here, with a row in lang/walk.py, one in lang/facts.py
and one in each printer.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from gilk.lang.data import Aggregation, Datum
from gilk.lang.machine import Machine
from gilk.lang.types import INT, Integer, Pointer, String, Translated, Type
from gilk.values import dataclass

# Expressions of any function: values.


@dataclass(frozen=True, slots=True)
class Constant:
    type: Type
    value: int


@dataclass(frozen=True, slots=True)
class Literal:
    value: str
    type: String = field(default_factory=String)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the probe, by number from 0."""

    type: Type
    number: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register of the thread at the probe, by its number in struct pt_regs; faults where there is none of it."""

    type: Type
    index: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A row of lang/operations.py that has a value: what is asked of the event, of strings, of the process."""

    type: Type
    name: str
    arguments: tuple[Expression, ...] = ()


# Variables, and memory.


@dataclass(frozen=True, slots=True)
class Place:
    """A variable at a fixed place: ``offset`` in the memory of its ``scope``, "global", or "this" of one firing."""

    type: Type
    scope: str
    offset: int


@dataclass(frozen=True, slots=True)
class Keyed:
    """A variable of the thread (``by_thread``), or an element of an associative array; 0 until it is written.

    ``layout``: where each of ``keys`` lies in the ``key_size`` bytes that it is found by.
    """

    type: Type
    variable: int
    by_thread: bool
    keys: tuple[Expression, ...]
    layout: tuple[Datum, ...]
    key_size: int


@dataclass(frozen=True, slots=True)
class Field:
    """Memory of the process at an address; ``bits`` and ``shift`` of a bit-field. Where there is none it faults."""

    type: Type
    address: Expression
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a variable that is an array or a struct: ``offset`` bytes into it, and further by each of ``indices``:
    an expression that must be below a count, times a size in bytes. ``bits`` and ``shift`` are those of a bit-field.
    """

    type: Type
    whole: Place | Keyed
    offset: int
    indices: tuple[tuple[Expression, int, int], ...] = ()
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """Where part of a variable at a fixed place lies."""

    type: Pointer
    of: Place | Part


# Operators.


@dataclass(frozen=True, slots=True)
class Unary:
    """``-``, ``~`` and ``!``."""

    type: Type
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """C's arithmetic, which wraps, and comparisons of integers or strings; ``&&``, ``||`` and ``^^``.

    The right side of ``&&`` and ``||`` is evaluated only where the left one leaves the result open.
    """

    type: Type
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    """One of ``yes`` and ``no`` is evaluated."""

    type: Type
    test: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Convert:
    """To another type: C's conversions of integers. To a string: characters are copied from the process.

    ``late``: what an operator of that type gives, which computes in 64 bits; one around it takes it as it is.
    """

    type: Type
    operand: Expression
    late: bool = False


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


# Names for values.


@dataclass(frozen=True, slots=True)
class Bound:
    """A name that a Let gives a value, by its number."""

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
    """``operand`` as the translator of that number sees it. Only its members have values, and they are expressions
    of their own: no code is made of it but that of ``bindings``, which are those of a Let around it.
    """

    type: Translated
    translator: int
    operand: Expression
    bindings: tuple[tuple[int, Expression], ...] = ()


# Nodes that only the expressions of a place contain, beside those of lang/machine.py.


@dataclass(frozen=True, slots=True)
class Peek:
    """Memory at an address, as an integer of that type; 0 where there is none."""

    type: Integer
    address: Expression


@dataclass(frozen=True, slots=True)
class Ask:
    """The value that the kernel returns of a system call that changes nothing, with at most four arguments."""

    call: int
    arguments: tuple[Expression, ...]
    type: Integer = INT


#: A Field is one in scratch memory, or else a fault.
Target: TypeAlias = Place | Keyed | Part | Field
Expression: TypeAlias = (
    Constant | Literal | Argument | Register | Call | Place | Keyed | Field | Part | Address | Unary | Binary
    | Conditional | Convert | Assign | Step | Comma | Bound | Let | Xlate | Peek | Ask | Machine
)  # fmt: skip

# Statements.


@dataclass(frozen=True, slots=True)
class Evaluate:
    expression: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Add to the entry of those keys; ``value`` None: count. ``weight``: how often the value counts."""

    aggregation: Aggregation
    keys: tuple[Expression, ...]
    value: Expression | None
    weight: Expression | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Something for the consumer: what it is to do, with what values of the record.

    ``text``: a format, a file name. ``aggregations``: names of those that it is about. ``shown``: for print(), the type
    of what is in memory. The action ``exit`` also ends the program at the probe.
    """

    action: str
    data: tuple[Datum, ...] = ()
    values: tuple[Expression, ...] = ()
    text: str | None = None
    aggregations: tuple[str, ...] = ()
    shown: Type | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done there and then: a row of lang/operations.py without a value."""

    action: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class If:
    test: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement: TypeAlias = Evaluate | Aggregate | Data | Act | If


@dataclass(frozen=True, slots=True)
class Function:
    """``number`` from 1, by which its faults are told. ``guard``: nothing is done where it is 0; None: always."""

    number: int
    guard: Expression | None
    body: tuple[Statement, ...]


Node: TypeAlias = Expression | Statement | Function

# Places.


@dataclass(frozen=True, slots=True)
class Given:
    """A place gives this to the probe that fires there, in expressions that cannot fail: mostly lang/machine.py's.

    ``arguments``: by number from 0; None for one that cannot be had. ``select``: which of several probes fires, by its
    value. ``condition``: none does where it is 0. Both None: always. ``error``: errno. ``edge``: a function begins or
    ends there, and its return address is on top of the stack.
    """

    arguments: tuple[Expression | None, ...] = ()
    select: Expression | None = None
    condition: Expression | None = None
    error: Expression = field(default_factory=lambda: Constant(INT, 0))
    edge: bool = False

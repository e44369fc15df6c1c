# SPDX-License-Identifier: LGPL-2.1-or-later
"""Computations at a probe: the form between languages, whose compilers make it, and printers, which make code of it.

The form is a tree of frozen values. A *function* runs at a probe: a guard, then statements in order. An *expression*
has a type; its value has 64 bits at most, or is a string, or memory of a known size. There are no loops and no calls of
functions of the program's own, so the longest way through a function is known in advance.

Conversions are explicit: both operands of an operator have the type in which it computes. Operands are evaluated from
left to right. An operation that cannot be done ends the function: division by zero, an index beyond its bound, memory
that is not there. The changes that the function has made stay, its records are discarded, and the fault is reported.

lang/facts.py, and never the printed code, tells what a node needs of the machine or does with it. A new operation is a
row in lang/operations.py; a new node is a class here, with a row in lang/walk.py, one in lang/facts.py and one in each
printer.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from gilk.lang.data import Aggregation, Datum
from gilk.lang.machine import Machine
from gilk.lang.types import INT, Integer, Pointer, String, Translated, Type
from gilk.values import dataclass

# Expressions that any function may contain: values.


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
class Local:
    """A variable of the function in which the probe lies, by its number among those that the program names: its value,
    or its address (lang/d/tree.py).
    """

    type: Type
    number: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register of the thread at the probe, by its number in struct pt_regs; it faults if there is no such
    register.
    """

    type: Type
    index: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of lang/operations.py that has a value, about the event, strings or the process."""

    type: Type
    name: str
    arguments: tuple[Expression, ...] = ()


# Variables and memory.


@dataclass(frozen=True, slots=True)
class Place:
    """A variable at a fixed place: ``offset`` bytes into the memory of its ``scope``, which is "global", or "this" for
    the variables of one firing.
    """

    type: Type
    scope: str
    offset: int


@dataclass(frozen=True, slots=True)
class Keyed:
    """A thread-local variable (``by_thread``) or an element of an associative array; its value is 0 until it is
    written.

    ``layout``: where each of ``keys`` lies in the key of ``key_size`` bytes by which the variable is found.
    """

    type: Type
    variable: int
    by_thread: bool
    keys: tuple[Expression, ...]
    layout: tuple[Datum, ...]
    key_size: int


@dataclass(frozen=True, slots=True)
class Field:
    """Memory of the process at an address; ``bits`` and ``shift`` are those of a bit-field. It faults if the memory
    cannot be read.
    """

    type: Type
    address: Expression
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a variable that is an array or a struct. It begins ``offset`` bytes into the variable; each of
    ``indices`` moves it further. An index is an expression, the count that it must be below, and the size in bytes by
    which it is multiplied. ``bits`` and ``shift`` are those of a bit-field.
    """

    type: Type
    whole: Place | Keyed
    offset: int
    indices: tuple[tuple[Expression, int, int], ...] = ()
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a variable at a fixed place, or of a part of one."""

    type: Pointer
    of: Place | Part


# Operators.


@dataclass(frozen=True, slots=True)
class Unary:
    """One of the operators ``-``, ``~`` and ``!``."""

    type: Type
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """C's arithmetic, which wraps, and comparisons of integers or strings; ``&&``, ``||`` and ``^^``.

    The right side of ``&&`` and ``||`` is evaluated only if the left side leaves the result open.
    """

    type: Type
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional:
    """C's conditional operator: only one of ``yes`` and ``no`` is evaluated."""

    type: Type
    test: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Convert:
    """A conversion. To an integer type it is C's; to a string it copies the characters from the process.

    ``late``: the operand is the result of an operator of that type, which computes in 64 bits; an operator around it
    takes the 64 bits unconverted.
    """

    type: Type
    operand: Expression
    late: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment. ``operator`` is that of a compound assignment, or ""; it computes in the type of ``value``."""

    type: Type
    target: Target
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Step:
    """``++`` or ``--``: adds ``by``. ``before``: the value of the expression is the new value of ``target``, otherwise
    the old one.
    """

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
    """The value that a Let around it has given this number."""

    type: Type
    number: int


@dataclass(frozen=True, slots=True)
class Let:
    """The value of ``body``. Each binding's value is computed once, before ``body``, and is used by each Bound with its
    number.
    """

    type: Type
    bindings: tuple[tuple[int, Expression], ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Xlate:
    """``operand`` seen through the translator with that number. Only its members have values, and these are expressions
    of their own. The only code made for the node is that of ``bindings``, which are bindings of a Let around it.
    """

    type: Translated
    translator: int
    operand: Expression
    bindings: tuple[tuple[int, Expression], ...] = ()


# Nodes that only the expressions of a place contain, besides those of lang/machine.py.


@dataclass(frozen=True, slots=True)
class Peek:
    """Memory at an address, as an integer of that type; 0 if the memory cannot be read."""

    type: Integer
    address: Expression


@dataclass(frozen=True, slots=True)
class Ask:
    """The result of a system call that changes nothing, as the kernel returns it; it has at most four arguments."""

    call: int
    arguments: tuple[Expression, ...]
    type: Integer = INT


#: A Field as a target must lie in scratch memory; otherwise the assignment faults.
Target: TypeAlias = Place | Keyed | Part | Field
Expression: TypeAlias = (
    Constant | Literal | Argument | Local | Register | Call | Place | Keyed | Field | Part | Address | Unary | Binary
    | Conditional | Convert | Assign | Step | Comma | Bound | Let | Xlate | Peek | Ask | Machine
)  # fmt: skip

# Statements.


@dataclass(frozen=True, slots=True)
class Evaluate:
    expression: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Add ``value`` to the entry for ``keys``; a ``value`` of None counts. ``weight``: how often the value counts."""

    aggregation: Aggregation
    keys: tuple[Expression, ...]
    value: Expression | None
    weight: Expression | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """A record for the consumer: the action that it is to carry out, and the values for that.

    ``text``: a format or a file name. ``aggregations``: the names of those that the action is about. ``shown``: for
    print(), the type of the memory to print. The action ``exit`` also ends the program at the probe.
    """

    action: str
    data: tuple[Datum, ...] = ()
    values: tuple[Expression, ...] = ()
    text: str | None = None
    aggregations: tuple[str, ...] = ()
    shown: Type | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """An action that is carried out at the probe: an operation of lang/operations.py without a value."""

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
    """A function that runs at a probe. ``number`` counts from 1 and names the function in reports of faults. ``guard``:
    the body runs only if this is not 0; None means that it always runs.
    """

    number: int
    guard: Expression | None
    body: tuple[Statement, ...]


Node: TypeAlias = Expression | Statement | Function

# Places.


@dataclass(frozen=True, slots=True)
class Given:
    """The values that a place gives to the probe that fires there. Its expressions cannot fail; most are of
    lang/machine.py.

    ``arguments``: by number from 0; None for one that cannot be had. ``locals``: the same for nodes Local. ``select``:
    its value says which of several probes fires. ``condition``: no probe fires if its value is 0. If both are None, the
    probe always fires. ``error``: errno. ``edge``: a function begins or ends at the place, and its return address is on
    top of the stack.
    """

    arguments: tuple[Expression | None, ...] = ()
    select: Expression | None = None
    condition: Expression | None = None
    error: Expression = field(default_factory=lambda: Constant(INT, 0))
    edge: bool = False
    locals: tuple[Expression | None, ...] = ()

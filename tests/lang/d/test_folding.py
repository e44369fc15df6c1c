# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arithmetic is done in 64 bits, and wraps where its result is stored: what is folded, what the generated C computes,
and a model agree. The result has the type of the operand with the higher rank; comparisons are C's."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gilk.engines.dtrace.tracing import Firing
from gilk.trace.d.events import Faulted
from tests.lang.d.sessions import happenings
from tests.seldom import seldom


@dataclass(frozen=True)
class Kind:
    size: int
    signed: bool

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'u'}int{8 * self.size}_t"

    def wrap(self, value: int) -> int:
        value &= (1 << 8 * self.size) - 1
        return value - (1 << 8 * self.size) if self.signed and value >> (8 * self.size - 1) else value

    @property
    def promoted(self) -> Kind:
        return self if self.size >= 4 else INT

    @property
    def wide(self) -> Kind:
        return Kind(8, self.signed)

    def common(self, other: Kind) -> Kind:
        return (
            Kind(self.size, self.signed and other.signed)
            if self.size == other.size
            else max(self, other, key=lambda kind: kind.size)
        )


KINDS = [Kind(size, signed) for size in (1, 2, 4, 8) for signed in (True, False)]
INT, LONG = Kind(4, True), Kind(8, True)
EDGES = [
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    0x7FFF,
    0x8000,
    1 << 31,
    (1 << 31) - 1,
    -(1 << 31),
]
EDGES += [1 << 32, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1000003]
VARIABLES = 40  # of a program


@dataclass(frozen=True)
class Expression:
    """An expression in D: ``folded`` of constants, ``variable`` of variables. ``computed`` is its value before it is
    stored in its type, and raises ZeroDivisionError."""

    kind: Kind
    folded: str
    variable: str
    computed: Callable[[], int]

    def value(self) -> int:
        return self.kind.wrap(self.computed())


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
LOGIC: dict[str, Callable[[Callable[[], int], Callable[[], int]], bool]] = {
    "&&": lambda a, b: bool(a() and b()),
    "||": lambda a, b: bool(a() or b()),
    "^^": lambda a, b: bool(a()) != bool(b()),
}
UNARY: dict[str, Callable[[int], int]] = {"-": lambda a: -a, "~": lambda a: ~a, "+": lambda a: a}


def binary(operator: str, left: Expression, right: Expression) -> Expression:
    texts = f"({left.folded} {operator} {right.folded})", f"({left.variable} {operator} {right.variable})"
    if operator in LOGIC:
        return Expression(INT, *texts, lambda: int(LOGIC[operator](left.value, right.value)))
    if operator in ("<<", ">>"):
        wide = left.kind.wide

        def shifted() -> int:
            value, by = wide.wrap(left.computed()), right.computed() & 63
            return wide.wrap(value << by if operator == "<<" else value >> by)

        return Expression(left.kind, *texts, shifted)
    if operator in COMPARISONS:
        kind = left.kind.promoted.common(right.kind.promoted)
        compare = COMPARISONS[operator]
        return Expression(INT, *texts, lambda: int(compare(kind.wrap(left.value()), kind.wrap(right.value()))))
    kind, compute = left.kind.common(right.kind), ARITHMETIC[operator]
    wide = kind.wide
    return Expression(kind, *texts, lambda: wide.wrap(compute(wide.wrap(left.computed()), wide.wrap(right.computed()))))


def unary(operator: str, operand: Expression) -> Expression:
    texts = f"({operator} {operand.folded})", f"({operator} {operand.variable})"
    if operator == "!":
        return Expression(INT, *texts, lambda: int(not operand.value()))
    wide = operand.kind.wide
    return Expression(operand.kind, *texts, lambda: wide.wrap(UNARY[operator](wide.wrap(operand.computed()))))


def cast(kind: Kind, operand: Expression, stored: bool = True) -> Expression:
    """A cast; with ``stored``, of the operand's value in its own type."""
    texts = f"(({kind.name}){operand.folded})", f"(({kind.name}){operand.variable})"
    return Expression(kind, *texts, lambda: kind.wrap(operand.value() if stored else operand.computed()))


def conditional(test: Expression, yes: Expression, no: Expression) -> Expression:
    """A conditional expression, with a cast: for a constant condition D drops the other branch, and its type."""
    kind = yes.kind.common(no.kind)
    folded = f"(({kind.name})({test.folded} ? {yes.folded} : {no.folded}))"
    variable = f"(({kind.name})({test.variable} ? {yes.variable} : {no.variable}))"
    return Expression(kind, folded, variable, lambda: kind.wrap(yes.value() if test.value() else no.value()))


class Program:
    """Variables with values, and expressions of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.variables = [self._variable(n) for n in range(VARIABLES)]

    def _variable(self, number: int) -> Expression:
        kind = self.chance.choice(KINDS)
        value = kind.wrap(self.chance.choice([*EDGES, self.chance.getrandbits(64), self.chance.randrange(-9, 9)]))
        constant = f"(({kind.name}){value & (1 << 64) - 1:#x})"
        return Expression(kind, constant, f"v{number}", lambda: value)

    def expression(self, depth: int) -> Expression:
        if depth == 0 or self.chance.random() < 0.1:
            return self.chance.choice(self.variables)
        some = [self.expression(depth - 1) for _ in range(3)]
        match self.chance.randrange(8):
            case 0:
                return unary(self.chance.choice("-~+!"), some[0])
            case 1:
                return cast(self.chance.choice(KINDS), some[0])
            case 2:
                return conditional(*some)
        return binary(self.chance.choice([*ARITHMETIC, *COMPARISONS, *LOGIC, "<<", ">>", "/", "%"]), *some[:2])

    def text(self, expressions: list[Expression]) -> str:
        declared = "".join(f"{one.kind.name} {one.variable};\n" for one in self.variables)
        assigned = "".join(f"{one.variable} = {one.folded}; " for one in self.variables)
        clauses = "".join(
            f"BEGIN {{ trace({one.folded}); }}\nBEGIN {{ trace({one.variable}); }}\n" for one in expressions
        )
        return f"{declared}BEGIN {{ {assigned}}}\n{clauses}BEGIN {{ exit(0); }}\n"


def expected(one: Expression) -> tuple[int, Kind] | None:
    try:
        return one.value(), one.kind
    except ZeroDivisionError:
        return None


def found(happening: Firing | Faulted) -> tuple[int, Kind] | None:
    if isinstance(happening, Faulted):
        assert happening.kind == 4  # divide-by-zero
        return None
    datum = happening.part.actions[0].data[0]
    kind = Kind(datum.size, datum.signed)
    return kind.wrap(int.from_bytes(happening.data[datum.offset : datum.offset + datum.size], "little")), kind


@pytest.mark.parametrize("amount", seldom([30, 100], 1))
@settings(max_examples=2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 1 << 64))
def test_constants_variables_and_the_model_agree(seed: int, amount: int) -> None:
    program = Program(seed)
    expressions = [program.expression(program.chance.randrange(1, 5)) for _ in range(amount)]
    happened = happenings(program.text(expressions))
    by_clause = {one.clause if isinstance(one, Faulted) else one.part.clause: one for one in happened}
    for number, one in enumerate(expressions):
        wanted = expected(one)
        assert found(by_clause[2 + 2 * number]) == wanted, one.folded
        assert found(by_clause[3 + 2 * number]) == wanted, (one.variable, one.folded)


@settings(max_examples=1, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(1, 1 << 64))
def test_assignments_of_constants_and_variables_agree_with_the_model(seed: int) -> None:
    """``a op= b`` is ``a = (type of a)(a op b)``, of clause-local variables."""
    program, lines, wanted = Program(seed), [], []
    for number in range(60):
        left, right = program.chance.choice(program.variables), program.chance.choice(program.variables)
        operator = program.chance.choice([*ARITHMETIC, "<<", ">>"])
        value = expected(cast(left.kind, binary(operator, left, right), stored=False))
        wanted.append(value)
        lines.append(f"this {left.kind.name} t{number};\n")
        lines.append(
            f"BEGIN {{ this->t{number} = {left.variable}; trace(this->t{number} {operator}= {right.variable}); }}"
        )
    text = program.text([]).replace("BEGIN { exit(0); }", "\n".join(lines) + "\nBEGIN { exit(0); }")
    by_clause = {one.clause if isinstance(one, Faulted) else one.part.clause: one for one in happenings(text)}
    assert [found(by_clause[2 + number]) for number in range(60)] == wanted

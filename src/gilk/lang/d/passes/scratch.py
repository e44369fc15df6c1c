# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that refuses bcopy() and copyinto() to what cannot be memory of alloca(), as far as the text tells.

A variable may hold such memory if it is assigned some in this clause or above, in whatever order, or the result of an
expression with such a variable. Memory, parameters and results of functions may always do.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang import ir
from gilk.lang.d import ast
from gilk.lang.d.meaning import typed
from gilk.lang.d.meaning.calls import mismatch
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.walk import walk

#: A variable: the scope and the offset of one at a fixed place; "" and the number of a looked-up one.
_Variable = tuple[str, int]


def run(clause: typed.Clause, state: SharedNames) -> typed.Clause:
    """The same clause. Raises Rejected."""
    state.allocated |= _assigned(clause, state.allocated)
    for call, number, to in state.scope.copies:
        if not _may_be(to, state.allocated):
            raise mismatch(call, number, "alloca pointer", "non-alloca pointer")
    return clause


def _assigned(clause: typed.Clause, known: set[_Variable]) -> set[_Variable]:
    """The variables that may hold scratch memory when the clause is over."""
    found, before = set(known), -1
    stores = [
        node
        for each in (*_expressions(clause.statements or ()), *([clause.test] if clause.test is not None else []))
        for node in walk(each)
        if isinstance(node, ir.Assign)
    ]
    while len(found) > before:
        before = len(found)
        found |= {_variable(each.target) for each in stores if _may_be(each.value, found)}
    return found


def _expressions(statements: tuple[typed.Statement, ...]) -> Iterator[ir.Expression]:
    for each in statements:
        match each:
            case typed.Evaluation(value=value):
                yield value
            case typed.Action(arguments=given):
                yield from (value for value in given if not isinstance(value, ast.Aggregate))
            case typed.AggregateCall(keys=keys, arguments=arguments):
                yield from (*keys, *arguments)
            case typed.If(test=test, then=then, otherwise=otherwise):
                yield test
                yield from _expressions((*then, *otherwise))


def _variable(target: ir.Target) -> _Variable:
    match target:
        case ir.Place(scope=scope, offset=offset):
            return scope, offset
        case ir.Keyed(variable=number):
            return "", number
        case ir.Part(whole=whole):
            return _variable(whole)
    return "memory", 0


def _may_be(node: ir.Expression, known: set[_Variable]) -> bool:
    """Whether the value may be scratch memory, or have its address in it."""
    match node:
        case ir.Constant() | ir.Literal() | ir.Argument() | ir.Local() | ir.Register() | ir.Address():
            return False
        case ir.Call(arguments=arguments):
            return bool(arguments)  # without arguments it is a variable of D's own
        case ir.Place() | ir.Keyed() | ir.Part():
            return _variable(node) in known
        case ir.Convert(operand=operand) | ir.Unary(operand=operand):
            return _may_be(operand, known)
        case ir.Binary(left=one, right=other) | ir.Conditional(yes=one, no=other):
            return _may_be(one, known) or _may_be(other, known)
        case ir.Comma(right=value) | ir.Step(target=value):
            return _may_be(value, known)
        case ir.Assign(target=target, operator=operator, value=value):
            return _may_be(value, known) or bool(operator and _may_be(target, known))
    return True

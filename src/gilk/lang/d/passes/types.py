# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that gives every expression of a clause its type, and checks calls against their prototypes."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d import ast, items
from gilk.lang.d.meaning import constants, typed
from gilk.lang.d.meaning.functions import FUNCTIONS, Role
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.d.probes import fires_alone
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import Special


def run(clause: items.Clause, state: SharedNames) -> typed.Clause:
    """The typed clause. Raises Rejected."""
    probes = tuple(probe.text for probe in clause.probes)
    state.expressions.arguments.begin(probes)
    state.expressions.locals.begin(probes)
    state.scope.copies.clear()
    state.scope.alone = all(map(fires_alone, probes))
    try:
        statements = _statements(clause, state)
    except Rejected as rejected:
        if clause.predicate is None or rejected.diagnostic.tag != Tag.D_IDENT_UNDEF:
            raise
        _test(clause, state)  # the predicate may declare the unknown variable
        statements = _statements(clause, state)
    return typed.Clause(clause, probes, _test(clause, state), statements)


def _test(clause: items.Clause, state: SharedNames) -> ir.Expression | None:
    """The predicate. It is checked after the statements, since DTrace knows in a predicate what they declare."""
    if clause.predicate is None:
        return None
    return state.expressions.condition(clause.predicate, Tag.D_PRED_SCALAR, "predicate result")


def _statements(clause: items.Clause, state: SharedNames) -> tuple[typed.Statement, ...] | None:
    state.scope.extent.begin()
    return None if clause.body is None or not clause.body.statements else _block(clause.body, state)


def _block(block: items.StatementBlock | None, state: SharedNames) -> tuple[typed.Statement, ...]:
    statements = () if block is None else block.statements
    return tuple(one for statement in statements for one in _statement(statement, state))


def _statement(statement: items.Statement, state: SharedNames) -> tuple[typed.Statement, ...]:
    match statement:
        case items.StatementBlock():
            return _block(statement, state)
        case items.If():
            return _if(statement, state)
        case items.ExpressionStatement():
            return _expression(statement.value, state)


def _if(statement: items.If, state: SharedNames) -> tuple[typed.Statement, ...]:
    """The statements for an if. If its condition is constant, they are those of the chosen branch."""
    test = state.expressions.condition(statement.test, Tag.D_OP_SCALAR, "the condition of if")
    known = constants.truth(test)
    if known is not None:
        return _block(statement.then if known else statement.otherwise, state)
    return (typed.If(test, _block(statement.then, state), _block(statement.otherwise, state)),)


def _expression(expression: ast.Expr, state: SharedNames) -> tuple[typed.Statement, ...]:
    match expression:
        case ast.Assign(target=ast.Aggregate() as target):
            return (_aggregating(expression, target, state),)
        case ast.Comma(left=left, right=right):
            return (*_expression(left, state), *_expression(right, state))
        case ast.Conditional():
            return _conditional(expression, state)
        case ast.Call():
            return (_call(expression, state),)
        case ast.Aggregate(keys=keys) if keys is not None:
            what = f"expression has null effect: @{expression.name}"
            raise Rejected(Tag.D_AGG_NULL, expression.span, what)
    return (typed.Evaluation(expression.span, state.expressions.check(expression)),)


def _conditional(expression: ast.Conditional, state: SharedNames) -> tuple[typed.Statement, ...]:
    """The statements for ``?:``. A constant condition chooses one way, which may be an action, although that has no
    value.
    """
    test = state.expressions.condition(expression.test, Tag.D_OP_SCALAR, "operator ?: expression")
    known = constants.truth(test)
    if known is not None:
        return _expression(expression.yes if known else expression.no, state)
    if not any(_acts(branch) for branch in (expression.yes, expression.no)):
        return (typed.Evaluation(expression.span, state.expressions.check(expression)),)
    return (typed.If(test, _expression(expression.yes, state), _expression(expression.no, state)),)


def _call(call: ast.Call, state: SharedNames) -> typed.Statement:
    known = FUNCTIONS.get(call.name)
    if known is None or known.role in (Role.SUBROUTINE, Role.AGGREGATING):
        return typed.Evaluation(call.span, state.expressions.check(call))
    if isinstance(known.type, Special):
        return typed.Action(call, known, (state.expressions.calls.subroutine(call),))
    given = tuple(state.expressions.check(argument) for argument in call.arguments)
    fit = state.expressions.calls.arguments(call, known, given)
    if known.role is Role.DEED:
        return typed.Action(call, known, fit)
    return typed.Action(call, known, tuple(map(_argument, call.arguments, given)))


def _argument(given: ast.Expr, value: ir.Expression) -> typed.Argument:
    return given if isinstance(given, ast.Aggregate) else value


def _aggregating(assign: ast.Assign, target: ast.Aggregate, state: SharedNames) -> typed.AggregateCall:
    call = assign.value
    if isinstance(call, ast.Call) and call.name not in FUNCTIONS:
        raise Rejected(Tag.D_FUNC_UNDEF, call.span, f"undefined function name: {call.name}")
    if assign.op != "=" or not isinstance(call, ast.Call) or FUNCTIONS[call.name].role is not Role.AGGREGATING:
        what = f"@{target.name} must be assigned the result of an aggregating function"
        raise Rejected(Tag.D_AGG_FUNC, assign.span, what)
    state.scope.aggregate(assign.span, target.name, call.name)
    arguments = tuple(state.expressions.value(argument) for argument in call.arguments)
    state.expressions.calls.arguments(call, FUNCTIONS[call.name], arguments)
    keys = tuple(state.expressions.value(key) for key in target.keys or ())
    state.scope.check_keys(assign.span, target.name, tuple(key.type for key in keys))
    return typed.AggregateCall(assign, target, call, keys, arguments)


def _acts(expression: ast.Expr) -> bool:
    """Whether the expression does something that only a statement can do."""
    match expression:
        case ast.Call(name=name):
            return name in FUNCTIONS and FUNCTIONS[name].role is not Role.SUBROUTINE
        case ast.Assign(target=ast.Aggregate()):
            return True
        case ast.Conditional(yes=yes, no=no):
            return _acts(yes) or _acts(no)
        case ast.Comma(left=left, right=right):
            return _acts(left) or _acts(right)
    return False

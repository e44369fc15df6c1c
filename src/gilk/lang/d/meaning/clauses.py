# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses: statements in order, what goes into which record, and what may follow what."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d import ast, items, tree
from gilk.lang.d.meaning import constants
from gilk.lang.d.meaning.actions import Actions
from gilk.lang.d.meaning.aggregating import Aggregations
from gilk.lang.d.meaning.expressions import Expressions
from gilk.lang.d.meaning.functions import FUNCTIONS, Role
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected, Span
from gilk.values import dataclass

#: What the consumer is asked for, without anything being recorded of the probe.
_NOT_DATA = ("clear", "trunc", "normalize", "denormalize", "setopt", "exit")


@dataclass
class _Order:
    """What the clause has done so far, of what must come in order: see d.md and the Guide, Speculation."""

    data: bool = False
    speculating: bool = False
    committed: bool = False

    def act(self, name: str, span: Span) -> None:
        if name == "speculate":
            self._refuse(self.speculating, Tag.D_SPEC_SPEC, span, "multiple calls to speculate( ) in one clause")
            self._refuse(self.committed, Tag.D_SPEC_COMM, span, "speculate( ) may not follow commit( )")
            self._refuse(self.data, Tag.D_SPEC_DREC, span, "speculate( ) may not follow data-recording actions")
            self.speculating = True
        elif name == "commit":
            self._refuse(self.committed, Tag.D_COMM_COMM, span, "multiple calls to commit( ) in one clause")
            self._refuse(self.data, Tag.D_COMM_DREC, span, "commit( ) may not follow data-recording actions")
            self.committed = True

    def record(self, name: str, span: Span, destructive: bool) -> None:
        self._refuse(self.speculating and name == "exit", Tag.D_EXIT_SPEC, span, "exit( ) may not follow speculate( )")
        self._refuse(
            self.speculating and destructive, Tag.D_ACT_SPEC, span, "destructive actions may not follow speculate( )"
        )
        if name not in _NOT_DATA:
            self._refuse(self.committed, Tag.D_DREC_COMM, span, "data-recording actions may not follow commit( )")
            self.data = True

    def aggregate(self, span: Span) -> None:
        self._refuse(self.speculating, Tag.D_AGG_SPEC, span, "aggregating actions may not follow speculate( )")
        self._refuse(self.committed, Tag.D_AGG_COMM, span, "aggregating actions may not follow commit( )")

    def _refuse(self, wrong: bool, tag: Tag, span: Span, message: str) -> None:
        if wrong:
            raise Rejected(tag, span, message)


class Clauses:
    def __init__(self, scope: Scope, expressions: Expressions) -> None:
        self._expressions = expressions
        self._actions = Actions(scope, expressions.declarations, expressions.check)
        self._aggregations = Aggregations(scope, expressions.value)
        self._order = _Order()
        self.destructive: Span | None = None

    def clause(self, number: int, clause: items.Clause) -> tree.Clause:
        """Raises Rejected."""
        self._order = _Order()
        self._actions.begin()
        probes = tuple(probe.text for probe in clause.probes)
        self._expressions.arguments.begin(probes)
        test = None
        if clause.predicate is not None:
            test = self._expressions.condition(clause.predicate, Tag.D_PRED_SCALAR, "predicate result")
        if clause.body is None or not clause.body.statements:
            body: tuple[ir.Statement, ...] = (ir.Data("default"),)
        else:
            body = self._block(clause.body)
        return tree.Clause(clause.span, probes, ir.Function(number, test, body))

    def _block(self, block: items.Block) -> tuple[ir.Statement, ...]:
        return tuple(one for statement in block.statements for one in self._statement(statement))

    def _statement(self, statement: items.Statement) -> tuple[ir.Statement, ...]:
        match statement:
            case items.Block():
                return self._block(statement)
            case items.If():
                return self._if(statement)
            case items.ExpressionStatement():
                return self._expression(statement.value)

    def _if(self, statement: items.If) -> tuple[ir.Statement, ...]:
        """One whose condition is known is what it chooses."""
        test = self._expressions.condition(statement.test, Tag.D_OP_SCALAR, "the condition of if")
        known = constants.truth(test)
        if known is not None:
            chosen = statement.then if known else statement.otherwise
            return () if chosen is None else self._block(chosen)
        return (ir.If(test, self._branch(statement.then), self._branch(statement.otherwise)),)

    def _branch(self, block: items.Block | None) -> tuple[ir.Statement, ...]:
        """Its record is its own."""
        outer = self._actions.layout
        self._actions.begin()
        found = () if block is None else self._block(block)
        self._actions.layout = outer
        return found

    def _expression(self, expression: ast.Expr) -> tuple[ir.Statement, ...]:
        match expression:
            case ast.Assign(target=ast.Aggregate() as target):
                self._order.aggregate(expression.span)
                return (self._aggregations.statement(expression, target),)
            case ast.Comma(left=left, right=right):
                return (*self._expression(left), *self._expression(right))
            case ast.Conditional():
                return self._conditional(expression)
            case ast.Call():
                return self._call(expression)
        return (ir.Evaluate(self._expressions.check(expression)),)

    def _conditional(self, expression: ast.Conditional) -> tuple[ir.Statement, ...]:
        """One whose condition is known chooses what the clause does: also among actions, which have no value."""
        test = self._expressions.condition(expression.test, Tag.D_OP_SCALAR, "operator ?: expression")
        known = constants.truth(test)
        if known is not None:
            return self._expression(expression.yes if known else expression.no)
        if not any(_acts(branch) for branch in (expression.yes, expression.no)):
            return (ir.Evaluate(self._expressions.check(expression)),)
        yes, no = (self._branch(_block(each)) for each in (expression.yes, expression.no))
        return (ir.If(test, yes, no),)

    def _call(self, call: ast.Call) -> tuple[ir.Statement, ...]:
        known = FUNCTIONS.get(call.name)
        if known is None or known.role in (Role.SUBROUTINE, Role.AGGREGATING):
            return (ir.Evaluate(self._expressions.check(call)),)
        if known.role is Role.ACTION:
            self._order.record(call.name, call.span, known.destructive)
        elif known.destructive:
            self._order.record(call.name, call.span, True)
        else:
            self._order.act(call.name, call.span)
        if known.destructive and self.destructive is None:
            self.destructive = call.span
        return (self._actions.statement(call, known),)


def _block(expression: ast.Expr) -> items.Block:
    return items.Block(expression.span, (items.ExpressionStatement(expression.span, expression),))


def _acts(expression: ast.Expr) -> bool:
    """It does something that only a statement can."""
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

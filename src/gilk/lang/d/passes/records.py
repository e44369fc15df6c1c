# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pass that lays out the records of a clause, checks the order of its actions, and makes a clause of
lang/ir of it.
"""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import typed
from gilk.lang.d.meaning.actions import Actions
from gilk.lang.d.meaning.aggregating import Aggregations
from gilk.lang.d.meaning.calls import is_of_another_context
from gilk.lang.d.meaning.functions import Role
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.passes.state import SharedNames
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import DYNAMIC
from gilk.lang.walk import walk
from gilk.values import dataclass


@dataclass
class _Order:
    """The kinds of actions so far, for actions that must come in a certain order (the Guide, Speculation)."""

    data: bool = False
    speculating: bool = False
    committed: bool = False

    def act(self, name: str, span: Span) -> None:
        if name == "speculate":
            self._refuse(self.speculating, Tag.D_SPEC_SPEC, span, "speculate( ) may not follow speculate( )")
            self._refuse(self.committed, Tag.D_SPEC_COMM, span, "speculate( ) may not follow commit( )")
            self._refuse(self.data, Tag.D_SPEC_DREC, span, "speculate( ) may not follow data-recording action(s)")
            self.speculating = True
        elif name == "commit":
            self._refuse(self.data, Tag.D_COMM_DREC, span, "commit( ) may not follow data-recording action(s)")
            self.committed = True

    def record(self, name: str, span: Span, destructive: bool) -> None:
        self._refuse(self.speculating and name == "exit", Tag.D_EXIT_SPEC, span, "exit( ) may not follow speculate( )")
        self._refuse(
            self.speculating and destructive, Tag.D_ACT_SPEC, span, "destructive actions may not follow speculate( )"
        )
        self._refuse(self.committed, Tag.D_DREC_COMM, span, "data-recording actions may not follow commit( )")
        self.data = True

    def aggregate(self, span: Span) -> None:
        self._refuse(self.speculating, Tag.D_AGG_SPEC, span, "aggregating actions may not follow speculate( )")
        self._refuse(self.committed, Tag.D_AGG_COMM, span, "aggregating actions may not follow commit( )")

    def _refuse(self, wrong: bool, tag: Tag, span: Span, message: str) -> None:
        if wrong:
            raise Rejected(tag, span, message)


def run(clause: typed.Clause, state: SharedNames) -> tree.Clause:
    """The clause with its records. Raises Rejected."""
    number = len(state.clauses) + 1
    if clause.statements is None:
        body: tuple[ir.Statement, ...] = (ir.Data("default"),)
    else:
        body = _Records(state).block(clause.statements)
    function = ir.Function(number, clause.test, body)
    return tree.Clause(clause.item.span, clause.probes, function, clause.attributes)


class _Records:
    """The compiler of one clause's statements."""

    def __init__(self, state: SharedNames) -> None:
        self._state = state
        self._actions = Actions(state.scope, state.expressions.declarations)
        self._aggregations = Aggregations(state.scope)
        self._order = _Order()

    def block(self, statements: tuple[typed.Statement, ...]) -> tuple[ir.Statement, ...]:
        """The statements. If a clause speculates and records nothing, it takes the default action (the Guide,
        Speculation), and so does one whose only actions are destructive: DTrace traces that they happened.
        """
        found = tuple(map(self._statement, statements))
        actions = [each for each in statements if isinstance(each, typed.Action)]
        speculates = any(each.call.name == "speculate" for each in actions) and not self._order.data
        records = any(each.known.role is Role.ACTION for each in actions)
        deeds = any(each.known.destructive for each in actions) and not records
        return (*found, ir.Data("default")) if speculates or deeds else found

    def _statement(self, statement: typed.Statement) -> ir.Statement:
        match statement:
            case typed.Evaluation(span=span, value=value):
                self._check_context(span, value)
                return ir.Evaluate(value)
            case typed.If(test=test, then=then, otherwise=otherwise):
                return ir.If(test, self._branch(then), self._branch(otherwise))
            case typed.AggregateCall():
                self._order.aggregate(statement.assign.span)
                found = self._aggregations.statement(statement)
                self._check_context(statement.assign.span, *statement.keys, *statement.arguments)
                return found
            case typed.Action():
                return self._action(statement)

    def _branch(self, statements: tuple[typed.Statement, ...]) -> tuple[ir.Statement, ...]:
        """The statements of a branch, which has a record of its own."""
        outer = self._actions.layout
        self._actions.begin()
        found = self.block(statements)
        self._actions.layout = outer
        return found

    def _action(self, action: typed.Action) -> ir.Statement:
        call, known = action.call, action.known
        if known.role is Role.ACTION:
            self._order.record(call.name, call.span, known.destructive)
        elif known.destructive:
            self._order.record(call.name, call.span, True)
        else:
            self._order.act(call.name, call.span)
        if known.destructive and self._state.destructive is None:
            self._state.destructive = call.span
        found = self._actions.statement(action)
        self._check_context(call.span, *(each for each in action.arguments if not isinstance(each, ast.Aggregate)))
        return found

    def _check_context(self, span: Span, *values: ir.Expression) -> None:
        """Raises Rejected if an action, which only a statement may call, is called within an expression."""
        for each in (node for value in values for node in walk(value)):
            if isinstance(each, ir.Call) and is_of_another_context(each):
                raise self._elsewhere(span, each)

    def _elsewhere(self, span: Span, found: ir.Call) -> Rejected:
        if found.name.startswith("@"):
            if found.name[1:] not in self._state.scope.aggregations:
                return Rejected(Tag.D_IDENT_UNDEF, span, f"failed to resolve {found.name}: Unknown variable name")
            return Rejected(Tag.D_AGG_NULL, span, f"expression has null effect: {found.name}")
        kind = "aggregating" if found.type == DYNAMIC else "tracing"
        what = f"{kind} function {found.name}( ) may not be called from a D expression (D program context required)"
        return Rejected(Tag.D_CG_EXPR, span, what)

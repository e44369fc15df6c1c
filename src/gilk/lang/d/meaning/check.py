# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a program means, item by item."""

from __future__ import annotations

from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import operands
from gilk.lang.d.meaning.clauses import Clauses
from gilk.lang.d.meaning.expressions import Expressions
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.types import is_scalar
from gilk.lang.syntax.source import Rejected


class Checker:
    """Takes the items of a program, or of several that share their variables, in the order of their text."""

    def __init__(self, strsize: int = 256) -> None:
        """``strsize``: the option, in bytes."""
        self._scope = Scope(strsize)
        self._expressions = Expressions(self._scope)
        self._clauses = Clauses(self._scope, self._expressions)
        self._found: list[tree.Clause] = []

    @property
    def clauses(self) -> int:
        """How many there have been."""
        return len(self._found)

    def item(self, item: ast.Item) -> None:
        """Raises Rejected. Options are for who reads them."""
        match item:
            case ast.Clause():
                self._found.append(self._clauses.clause(len(self._found) + 1, item))
            case ast.Declaration():
                self._expressions.declarations.declare(item)
            case ast.Inline():
                self._inline(item)
            case ast.Pragma():
                return  # attributes, bindings and dependencies change nothing here
            case ast.Translator():
                raise Rejected(Tag.D_UNSUPPORTED, item.span, "translators are not implemented (yet)")
            case ast.ProviderDefinition():
                raise Rejected(Tag.D_UNSUPPORTED, item.span, "provider definitions are not implemented (yet)")

    def _inline(self, item: ast.Inline) -> None:
        type_, keys = self._expressions.declarations.declared(item.base, item.declarator)
        name = item.declarator.name or ""
        if keys is not None:
            raise Rejected(Tag.D_UNSUPPORTED, item.span, f"inlines with keys are not implemented (yet): {name}")
        value = self._expressions.value(item.value)
        if not operands.is_assignable(type_, value.type) and not (is_scalar(type_) and is_scalar(value.type)):
            raise Rejected(*operands.incompatible("=", type_, value.type, item.span))
        if name in self._scope.inlines or self._scope.variable("global", name) is not None:
            raise Rejected(Tag.D_DECL_IDRED, item.span, f"identifier redefined: {name}")
        self._scope.inlines[name] = operands.converted(type_, value, item.span)

    def program(self) -> tree.Program:
        scope = self._scope
        return tree.Program(
            tuple(self._found),
            tuple(scope.variables.values()),
            tuple(scope.aggregations.values()),
            scope.globals_size,
            scope.this_size,
            self._clauses.destructive,
            strsize=scope.strsize,
        )

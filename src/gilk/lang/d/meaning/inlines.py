# SPDX-License-Identifier: LGPL-2.1-or-later
"""Inlines: names for expressions. An inline with keys has parameters, and is checked again for the arguments of each
use.
"""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.d import ast, items
from gilk.lang.d.meaning import keying, operands, substitution
from gilk.lang.d.meaning.builtins import BUILTINS
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.extent import NOTHING
from gilk.lang.d.meaning.functions import FUNCTIONS, OF_LOCKS
from gilk.lang.d.meaning.scope import Inline, Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.meaning.translators import is_fit
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import Type, is_scalar, text

Check = Callable[[ast.Expr], ir.Expression]


class Inlines:
    """The inlines of a program. ``check`` checks expressions without turning arrays into addresses."""

    def __init__(self, scope: Scope, declarations: Declarations, check: Check) -> None:
        self._scope = scope
        self._declarations = declarations
        self._check = check

    def define(self, item: items.Inline) -> None:
        """Define an inline. Raises Rejected."""
        type_, keys = self._declarations.declared(item.base, item.declarator)
        name = item.declarator.name or ""
        known = self._known(name)
        if known:
            both = f"\t current: inline definition\n\tprevious: {known}"
            raise Rejected(Tag.D_DECL_IDRED, item.span, f"identifier redefined: {name}\n{both}")
        parameters = self._parameters(item.declarator, keys) if keys is not None else ()
        with self._scope.bound({name: self._scope.fresh(each) for name, each in parameters}):
            value = self._fit(name, type_, self._check(item.value), item.span)
        text_ = item.value if keys is not None else None
        measure = self._scope.extent.measure() if keys is None else NOTHING
        self._scope.inlines[name] = Inline(type_, value, measure, parameters, text_)

    def _known(self, name: str) -> str:
        """The name in messages of what has the name already; "" if the name is free."""
        if name in self._scope.inlines:
            return "scalar inline"
        if name in FUNCTIONS and not (name in OF_LOCKS and self._scope.world.in_kernel):
            return "function "
        return "scalar variable" if self._scope.variable("global", name) is not None or name in BUILTINS else ""

    def _parameters(self, declarator: ast.Declarator, types: tuple[Type, ...]) -> tuple[tuple[str, Type], ...]:
        (keyed,) = (shape for shape in declarator.shape if isinstance(shape, ast.KeyedBy))
        found: dict[str, Type] = {}
        for given, type_ in zip(keyed.types, types, strict=True):
            name = given.declarator.name
            if name is None:
                what = f"inline declaration requires names for its parameters: {declarator.name}"
                raise Rejected(Tag.D_DECL_PROTO_FORM, given.span, what)
            if name in found:
                raise Rejected(Tag.D_DECL_IDRED, given.span, f"identifier redeclared: {name}")
            found[name] = type_
        return tuple(found.items())

    def _fit(self, name: str, type_: Type, found: ir.Expression, span: Span) -> ir.Expression:
        value = operands.decayed(found)
        if isinstance(value, ir.Xlate) and is_fit(type_, value.type):
            return value
        if not operands.is_assignable(type_, value.type) and not (is_scalar(type_) and is_scalar(value.type)):
            what = f'inline {name} definition uses incompatible types: "{text(type_)}" = "{text(value.type)}"'
            raise Rejected(Tag.D_OP_INCOMPAT, span, what)
        return operands.converted(type_, found, span)

    def named(self, inline: Inline, span: Span) -> ir.Expression:
        """The value of an inline without keys. Raises Rejected."""
        if inline.text is not None:
            raise Rejected(Tag.D_OP_DYN, span, "an inline that has parameters is used without them")
        self._scope.extent.add(inline.measure, span)
        return inline.value

    def indexed(self, name: str, expression: ast.Index) -> ir.Expression:
        """The value of an inline with keys. Raises Rejected."""
        inline = self._scope.inlines[name]
        assert inline.text is not None
        if len(expression.keys) != len(inline.parameters):
            given, wanted = len(expression.keys), len(inline.parameters)
            what = f"{name}[ ] prototype mismatch: {given} key{'' if given == 1 else 's'} passed, {wanted} expected"
            raise Rejected(Tag.D_PROTO_LEN, expression.span, what)
        values: dict[str, ir.Expression] = {}
        bindings: substitution.Bindings = ()
        for number, ((parameter, type_), key) in enumerate(zip(inline.parameters, expression.keys, strict=True), 1):
            value = self._key(name, number, type_, key)
            values[parameter], more = substitution.bind(self._scope, type_, value, key.span)
            bindings += more
        with self._scope.bound(values):
            found = self._fit(name, inline.type, self._check(inline.text), expression.span)
        return substitution.let(bindings, found)

    def _key(self, name: str, number: int, type_: Type, key: ast.Expr) -> ir.Expression:
        value = operands.decayed(self._check(key))
        if not is_fit(type_, value.type):
            raise keying.mismatch(key.span, name, number, type_, value.type)
        return value

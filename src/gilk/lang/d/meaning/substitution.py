# SPDX-License-Identifier: LGPL-2.1-or-later
"""The binding of arguments to parameters of inlines and translators: each argument is evaluated once, however often the
parameter is used.
"""

from __future__ import annotations

from dataclasses import replace

from gilk.lang import ir
from gilk.lang.d.meaning import operands
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.syntax.source import Span
from gilk.lang.types import Array, Record, Type

Bindings = tuple[tuple[int, ir.Expression], ...]


def bind(scope: Scope, type_: Type, value: ir.Expression, span: Span) -> tuple[ir.Expression, Bindings]:
    """The expression that stands for the parameter, and the bindings that give it its value, converted to ``type_``.

    A struct is not bound but stands for itself, since only its members are used.
    """
    if isinstance(type_, Record) or isinstance(value, ir.Xlate):
        return value, ()
    value = operands.converted(type_, value, span)
    if isinstance(value, ir.Constant | ir.Literal | ir.Bound):
        return value, ()
    name = scope.fresh(type_)
    return name, ((name.number, value),)


def let(bindings: Bindings, body: ir.Expression) -> ir.Expression:
    """``body`` with ``bindings`` around it. A struct, an array or a translation stays one, so that its parts can still
    be reached.
    """
    if not bindings:
        return body
    match body:
        case ir.Xlate():
            return replace(body, bindings=(*bindings, *body.bindings))
        case ir.Field(type=Record() | Array()):
            return replace(body, address=ir.Let(body.address.type, bindings, body.address))
        case ir.Place() | ir.Part(indices=()):
            return body
    return ir.Let(body.type, bindings, body)

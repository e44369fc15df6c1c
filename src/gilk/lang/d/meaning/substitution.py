# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is given for a parameter of an inline or of a translator: evaluated once, however often it is asked for."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d import tree
from gilk.lang.d.meaning import operands
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.syntax.source import Span
from gilk.lang.types import Array, Record, Type

Bindings = tuple[tuple[int, tree.Expression], ...]


def bind(scope: Scope, type_: Type, value: tree.Expression, span: Span) -> tuple[tree.Expression, Bindings]:
    """What stands for the parameter, and how it gets its value, which is fit for ``type_``. A struct stands for itself:
    only its members are looked at.
    """
    if isinstance(type_, Record) or isinstance(value, tree.Xlate):
        return value, ()
    value = operands.converted(type_, value, span)
    if isinstance(value, tree.Constant | tree.Literal | tree.Bound):
        return value, ()
    name = scope.fresh(type_)
    return name, ((name.number, value),)


def let(bindings: Bindings, body: tree.Expression) -> tree.Expression:
    """``body`` with these around it, which keeps being what can be taken apart: a struct, an array, a translation."""
    if not bindings:
        return body
    match body:
        case tree.Xlate():
            return replace(body, bindings=(*bindings, *body.bindings))
        case tree.Field(type=Record() | Array()):
            return replace(body, address=tree.Let(body.address.type, bindings, body.address))
        case tree.Place() | tree.Part(indices=()):
            return body
    return tree.Let(body.type, bindings, body)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of types in confined C: they compute nothing, so the length of an array is a constant."""

from __future__ import annotations

from dataclasses import fields

from gilk.lang.aspect.kernel.names import Confined
from gilk.lang.d import ast
from gilk.lang.d.unparse import type_name


def type_text(node: ast.TypeName) -> str:
    """The text of a type that computes nothing: the length of an array could be an expression that C evaluates. Raises
    Confined."""
    _check_lengths(node)
    return type_name(node)


def _check_lengths(node: object) -> None:
    """Raises Confined if the length of an array is not a constant."""
    if isinstance(node, ast.TagType) and (node.members is not None or node.enumerators is not None):
        raise Confined("a struct, union or enumeration is declared in a type")
    if isinstance(node, ast.ArrayOf) and node.size is not None and not _is_constant(node.size):
        raise Confined("the length of an array is no number")
    for each in fields(node) if isinstance(node, ast.Node) else ():
        value = getattr(node, each.name)
        for one in value if isinstance(value, tuple) else (value,):
            _check_lengths(one)


def _is_constant(node: ast.Expr) -> bool:
    match node:
        case ast.Number():
            return True
        case ast.SizeofType(type=type_):
            _check_lengths(type_)
            return True
        case ast.Binary(left=left, right=right):
            return _is_constant(left) and _is_constant(right)
    return False

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Walks through trees of lang/ir.py: the parts of a node, and all nodes below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gilk.lang import ir


def operands(node: ir.Node) -> tuple[ir.Expression | ir.Statement, ...]:
    """The parts of a node, in the order of evaluation; of a branch, both ways."""
    parts: Callable[[Any], tuple[ir.Expression | ir.Statement, ...]] | None = _OPERANDS.get(type(node))
    return () if parts is None else parts(node)


def walk(node: ir.Node) -> Iterator[ir.Node]:
    """Yield ``node`` and then all nodes below it."""
    yield node
    for each in operands(node):
        yield from walk(each)


def with_parts(target: ir.Target, by: Callable[[ir.Expression], ir.Expression]) -> ir.Target:
    """``target`` with ``by`` applied to each of its keys, indices and addresses, in the order of evaluation."""
    match target:
        case ir.Keyed():
            return replace(target, keys=tuple(map(by, target.keys)))
        case ir.Field():
            return replace(target, address=by(target.address))
        case ir.Part(whole=whole):
            found = with_parts(whole, by)
            assert isinstance(found, ir.Place | ir.Keyed)
            indices = tuple((by(index), count, size) for index, count, size in target.indices)
            return replace(target, whole=found, indices=indices)
    return target


def _given(*values: ir.Expression | None) -> tuple[ir.Expression, ...]:
    return tuple(value for value in values if value is not None)


#: The function that returns a node's parts, by the node's class; a class without a row is a leaf.
_OPERANDS: dict[type, Callable[[Any], tuple[ir.Expression | ir.Statement, ...]]] = {
    ir.Register: lambda node: (node.index,),
    ir.Call: lambda node: node.arguments,
    ir.Keyed: lambda node: node.keys,
    ir.Field: lambda node: (node.address,),
    ir.Part: lambda node: (node.whole, *(index for index, _, _ in node.indices)),
    ir.Address: lambda node: (node.of,),
    ir.Unary: lambda node: (node.operand,),
    ir.Binary: lambda node: (node.left, node.right),
    ir.Conditional: lambda node: (node.test, node.yes, node.no),
    ir.Convert: lambda node: (node.operand,),
    ir.Assign: lambda node: (node.target, node.value),
    ir.Step: lambda node: (node.target,),
    ir.Comma: lambda node: (node.left, node.right),
    ir.Let: lambda node: (*(value for _, value in node.bindings), node.body),
    ir.Xlate: lambda node: tuple(value for _, value in node.bindings),
    ir.Peek: lambda node: (node.address,),
    ir.Ask: lambda node: node.arguments,
    ir.Evaluate: lambda node: (node.expression,),
    ir.Aggregate: lambda node: _given(*node.keys, node.value, node.weight),
    ir.Data: lambda node: node.values,
    ir.Act: lambda node: node.arguments,
    ir.If: lambda node: (node.test, *node.then, *node.otherwise),
    ir.Function: lambda node: (*_given(node.guard), *node.body),
}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which expressions do something besides having a value: only for them it matters when they are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gilk.lang.d import tree

_CALLS = frozenset(("strtok", "bcopy", "copyinto", "speculation", "rand"))


def has(value: tree.Expression) -> bool:
    """Whether evaluating it changes what others see."""
    match value:
        case tree.Assign() | tree.Step():
            return True
        case tree.Call(name=name, arguments=arguments):
            return name in _CALLS or any(map(has, arguments))
    return any(map(has, _parts(value)))


def _parts(value: tree.Expression) -> tuple[tree.Expression, ...]:
    match value:
        case tree.Builtin(index=index):
            return () if index is None else (index,)
        case tree.Keyed(keys=keys):
            return keys
        case tree.Part(whole=whole, indices=indices):
            return (whole, *(index for index, _, _ in indices))
        case tree.Field(address=address):
            return (address,)
        case tree.Unary(operand=operand) | tree.Convert(operand=operand):
            return (operand,)
        case tree.Binary(left=left, right=right) | tree.Comma(left=left, right=right):
            return left, right
        case tree.Let(bindings=bindings, body=body):
            return (*(value for _, value in bindings), body)
        case tree.Xlate(bindings=bindings):
            return tuple(value for _, value in bindings)
        case tree.Conditional(test=test, yes=yes, no=no):
            return test, yes, no
    return ()


def replaced(target: tree.Target, by: Callable[[tree.Expression], tree.Expression]) -> tree.Target:
    """``target`` with its keys and indices replaced, in the order in which they are evaluated."""
    match target:
        case tree.Keyed():
            return replace(target, keys=tuple(map(by, target.keys)))
        case tree.Field():
            return replace(target, address=by(target.address))
        case tree.Part(whole=whole):
            found = replaced(whole, by)
            assert isinstance(found, tree.Place | tree.Keyed)
            indices = tuple((by(index), count, size) for index, count, size in target.indices)
            return replace(target, whole=found, indices=indices)
    return target

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Find which strings may be NULL: code checks only these before it reads them, and only variables that one may be
assigned to have a mark for NULL.

A variable that is looked up by key is NULL while it does not exist. A variable at a fixed place is empty at first, as
in DTrace.
"""

from __future__ import annotations

from collections.abc import Iterable

from gilk.lang import ir
from gilk.lang.types import String
from gilk.lang.walk import walk

#: Subroutines that return NULL when they find nothing.
FINDING = frozenset(("strtok", "strchr", "strrchr", "strstr"))


class Nulls:
    """The variables and bound names in a program's functions that may hold NULL."""

    def __init__(self, functions: Iterable[ir.Function] = ()) -> None:
        self._places: set[tuple[str, int]] = set()
        self._bound: set[int] = set()
        nodes = [node for function in functions for node in walk(function) if isinstance(node, ir.Assign | ir.Let)]
        while sum(map(self._learn, nodes)):
            pass  # repeat: a later assignment may have made a source of an earlier one NULL

    def _learn(self, node: ir.Assign | ir.Let) -> bool:
        """Mark the target of ``node`` if it may become NULL; whether that has added anything."""
        before = len(self._places) + len(self._bound)
        if isinstance(node, ir.Let):
            self._bound.update(number for number, value in node.bindings if self.may_be(value))
        elif isinstance(node.target, ir.Place) and self.may_be(node.value):
            self._places.add((node.target.scope, node.target.offset))
        return len(self._places) + len(self._bound) > before

    def is_marked(self, place: ir.Place) -> bool:
        """Whether the string variable at ``place`` has a mark that says that it is NULL."""
        return (place.scope, place.offset) in self._places

    def may_be(self, value: ir.Expression) -> bool:
        """Whether ``value`` is a string that may be NULL."""
        if not isinstance(value.type, String):
            return False
        match value:
            case ir.Constant() | ir.Keyed():
                return True
            case ir.Call(name=name):
                return name in FINDING
            case ir.Place():
                return self.is_marked(value)
            case ir.Bound(number=number):
                return number in self._bound
            case ir.Conditional(yes=yes, no=no):
                return self.may_be(yes) or self.may_be(no)
            case ir.Comma(right=part) | ir.Let(body=part) | ir.Assign(value=part):
                return self.may_be(part)
        return False

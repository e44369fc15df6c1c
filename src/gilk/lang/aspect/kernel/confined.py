# SPDX-License-Identifier: LGPL-2.1-or-later
"""Confinement of the C in conditions, binds and advice for the kernel, so that it does no harm whatever its values are.

The C is read as trees (fragments.py) and written anew: memory is read by checked loads, and a division checks its
divisor. Only these, arithmetic, words of instances, own variables and some functions are allowed; everything else is
refused with its name. There are no loops, so the code ends. native/include/kernel/gilk_woven.h has the functions that
it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gilk.lang.aspect.fragments import (
    Branching,
    Declaring,
    Doing,
    Fragment,
    LocalNames,
    Returning,
    Several,
    block,
    expression,
)
from gilk.lang.aspect.kernel.expressions import ConfinedExpressions, divided
from gilk.lang.aspect.kernel.foreign import Foreign
from gilk.lang.aspect.kernel.names import NO_MACROS, NOTHING_FOREIGN, SWITCHES, Confined, FragmentNames, check_name
from gilk.lang.aspect.kernel.reports import report_call
from gilk.lang.d import ast
from gilk.lang.types import Integer


class ConfinedC:
    """The confinement of one fragment; its arguments are those of FragmentNames."""

    def __init__(
        self, names: Iterable[str], writable: Iterable[str] = (), macros: Mapping[str, int | None] = NO_MACROS,
        foreign: Foreign = NOTHING_FOREIGN,
    ) -> None:  # fmt: skip
        self._names = FragmentNames(names, writable, macros, foreign)
        self._expressions = ConfinedExpressions(self._names)
        self._returns = False

    @property
    def foreign(self) -> frozenset[str]:
        """The names that have a value which processes may have written."""
        return frozenset(self._names.foreign.names)

    def bound(self, name: str, text: str | None) -> None:
        """Note that from now on the name has the value of an expression; None: a value that the event itself gives."""
        self._names.foreign.given(name, None if text is None else expression(text))

    def value(self, text: str) -> str:
        """The confined C of an expression. Raises Confined."""
        return self._expressions.of(self._tree(text))

    def text(self, text: str) -> str:
        """The confined C of an expression that gives the beginning of characters: an array of them, or a pointer.
        Raises Confined.
        """
        return self._expressions.characters(self._tree(text))

    @staticmethod
    def _tree(text: str) -> ast.Expr:
        tree = expression(text)
        if tree is None:
            raise Confined(f"`{_short(text)}` is no expression of numbers, members, pointers and operators alone")
        return tree

    def advice(self, text: str, returns: bool = False) -> str:
        """The confined C of a block, or of one call. ``returns``: it may return a value, in place of the function.
        Raises Confined.
        """
        tree = block(text)
        if tree is None:
            raise Confined(f"`{_short(text)}` has more than expressions, own variables, if and return")
        self._names.own, self._returns = set(), returns
        return self._statement(tree)

    def _statement(self, node: Fragment) -> str:
        match node:
            case Doing(value=value):
                return f"{self._effect(value)};"
            case LocalNames(names=names):
                return " ".join(self._declared(one) for one in names)
            case Returning(value=None):
                return "return;"
            case Returning(value=value) if value is not None and self._returns:
                return f"return {self._expressions.of(value)};"
            case Returning():
                raise Confined("advice before or after a call returns nothing")
            case Branching(test=test, then=then, otherwise=otherwise):
                other = f" else {{ {self._statement(otherwise)} }}" if otherwise is not None else ""
                return f"if ({self._expressions.of(test)}) {{ {self._statement(then)} }}{other}"
            case Several(statements=statements):
                with self._names.block():
                    inside = " ".join(map(self._statement, statements))
                return f"{{ {inside} }}"

    def _declared(self, one: Declaring) -> str:
        check_name(one.name)
        value = None if one.value is None else self._expressions.of(one.value)
        self._names.declare(one.name, one.value)
        if isinstance(one.type, Integer):
            return f"{'s' if one.type.signed else 'u'}{8 * one.type.size} {one.name} = {value or 0};"
        if value is None:
            raise Confined(f"{one.name} has no value at first")
        return f"__auto_type {one.name} = {value};"

    def _effect(self, node: ast.Expr) -> str:
        match node:
            case ast.Call(name="report", arguments=given):
                return report_call(given, self._expressions)
            case ast.Call(name="add", arguments=given) if len(given) > 1 and isinstance(given[0], ast.Name):
                *keys, amount = given[1:]
                texts = (*self._names.foreign.foreign.text_keys.get(given[0].name, ()), *(False for _ in keys))
                parts = [given[0].name, *map(self._key, keys, texts), self._expressions.of(amount)]
                return f"add({', '.join(parts)})"
            case ast.Call(name=name, arguments=(ast.Name(name=aspect),)) if name in SWITCHES:
                return f"{name}({aspect})"
            case ast.Assign() | ast.Postfix() | ast.Unary(op="++" | "--"):
                return self._stored(node)
            case ast.Comma(left=left, right=right):
                return f"{self._effect(left)}, {self._effect(right)}"
        return f"(void)({self._expressions.of(node)})"

    def _stored(self, node: ast.Assign | ast.Postfix | ast.Unary) -> str:
        target = node.target if isinstance(node, ast.Assign) else node.operand
        if not isinstance(target, ast.Name) or not self._names.may_assign(target.name):
            raise Confined("advice in the kernel writes words of its instance and its own variables alone")
        if not isinstance(node, ast.Assign):
            return f"{target.name}{node.op}"
        if self._names.foreign.are_in(node.value):
            self._names.foreign.given(target.name, node.value)
        if node.op in ("/=", "%="):
            return f"{target.name} = {divided(node.op[0], target.name, self._expressions.of(node.value))}"
        return f"{target.name} {node.op} {self._expressions.of(node.value)}"

    def _key(self, node: ast.Expr, text: bool) -> str:
        """The C of a part of a table's key, which may be a ``text``. A name is written as it is, since it may be that
        of a struct.
        """
        if text:
            self._names.check_leads(node)
        return self._names.named(node.name) if isinstance(node, ast.Name) else self._expressions.start(node)


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) < 60 else plain[:57] + "..."

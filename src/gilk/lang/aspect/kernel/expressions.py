# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expressions of confined C: memory is read by checked loads, and a division checks its divisor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gilk.lang.aspect.kernel.names import MACROS, NEVER, PURE, TEXTS, Confined, FragmentNames, macro_name
from gilk.lang.aspect.kernel.types import type_text
from gilk.lang.aspect.kernel_accessors import accessed
from gilk.lang.c.literals import quoted
from gilk.lang.d import ast

_DEPTH = 12  # of members in members; some of these double the text


class ConfinedExpressions:
    """Writes the expressions of one fragment, which may use ``names``."""

    def __init__(self, names: FragmentNames) -> None:
        self._names, self._depth = names, 0

    def of(self, node: ast.Expr) -> str:
        """The C of an expression's value. Raises Confined."""
        with self._deeper():
            return self._written(node)

    def characters(self, node: ast.Expr) -> str:
        """The C of the beginning of characters: of an array of them, or a pointer. Raises Confined."""
        self._names.check_leads(node)
        return self.start(node)

    def start(self, node: ast.Expr) -> str:
        """The C of a pointer: to a copy of an array's beginning, or the value of a pointer. Raises Confined."""
        if _is_place(node) and not _is_direct(node):
            with self._deeper():
                return f"gilk_start({self._place(node)})"
        return self.of(node)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > 8 * _DEPTH:
            raise Confined("an expression is too deep")
        try:
            yield
        finally:
            self._depth -= 1

    def _written(self, node: ast.Expr) -> str:
        match node:
            case ast.Name(name=name):
                return self._names.named(name)
            case ast.Number() | ast.Text() | ast.SizeofType() | ast.Offsetof():
                return _leaf(node)
            case ast.Binary(op="/" | "%" as op, left=left, right=right):
                return divided(op, self.of(left), self.of(right))
            case ast.Binary(op=op, left=left, right=right) if op != "^^":
                return f"({self.of(left)} {op} {self.of(right)})"
            case ast.Conditional(test=test, yes=yes, no=no):
                return f"({self.of(test)} ? {self.of(yes)} : {self.of(no)})"
            case ast.Cast(type=type_, operand=operand):
                return f"(({type_text(type_)})({self.of(operand)}))"
            case ast.Sizeof(operand=operand):
                return f"sizeof({self._place(operand)})" if _is_place(operand) else f"sizeof({self.of(operand)})"
            case ast.Unary(op="+" | "-" | "~" | "!" as op, operand=operand):
                return f"({op}({self.of(operand)}))"
            case ast.Unary(op="&", operand=operand) if _is_place(operand):
                return f"(&({self._place(operand)}))"
            case ast.Call():
                return self._called(node)
        if _is_direct(node):
            return self._place(node)
        if _is_place(node):
            return f"gilk_fetch({self._place(node)})"
        raise Confined(f"`{_kind(node)}` may not stand in a condition or value in the kernel")

    def _place(self, node: ast.Expr) -> str:
        """The C of an lvalue: its address is computed, and memory on the way is loaded. Raises Confined."""
        if _is_place(node) and not _is_direct(node):
            self._names.check_leads(node)
        match node:
            case ast.Name(name=name):
                return self._names.named(name)
            case ast.Member(base=base, name=name, arrow=True):
                return f"({self.of(base)})->{name}"
            case ast.Member(base=ast.Name(name="jp"), name=name) if name not in ("function", "image"):
                raise Confined(f"in the kernel, jp has no {name}: function and image are its members")
            case ast.Member(base=base, name=name):
                if not _is_place(base) and not isinstance(base, ast.Name):
                    raise Confined(f".{name} is of what has no address")
                return f"({self._place(base)}).{name}"
            case ast.Index(base=base, keys=(key,)):
                return f"({self.start(base)})[{self.of(key)}]"
            case ast.Unary(op="*", operand=operand):
                return f"(*({self.start(operand)}))"
        raise Confined(f"`{_kind(node)}` has no address")

    def _called(self, node: ast.Call) -> str:
        name, given = node.name, node.arguments
        if name in PURE and len(given) == PURE[name]:
            return f"{name}()"  # a macro of gilk's, also where a value has that name: bind(pid_t tid, tid())
        if self._names.has_value(name):
            raise Confined(f"{name} is a value, and is not called")
        if name in NEVER:
            raise Confined(NEVER[name])
        if name in TEXTS and len(given) == TEXTS[name]:
            parts = [self.characters(one) if n < 2 else self.of(one) for n, one in enumerate(given)]
            return f"gilk_{name}({', '.join(parts)})"
        own = name in self._names.macros
        if not own and (value := accessed(node)) is not None:
            return f"({self.of(value)})"
        if name in MACROS or (own and self._names.macros[name] == len(given)):
            for one in given if name in self._names.foreign.foreign.loading else ():
                self._names.check_leads(one)
            return f"{macro_name(name) if own else name}({', '.join(map(self.of, given))})"
        raise Confined(f"{name}() is called: in the kernel, conditions and advice call functions of their own alone")


def divided(op: str, left: str, right: str) -> str:
    """The C of a division, or of its remainder (``op`` is ``%``), with its divisor checked."""
    return f"{'gilk_divide' if op == '/' else 'gilk_remainder'}({left}, {right})"


def _is_place(node: ast.Expr) -> bool:
    """Whether the expression is in memory."""
    return isinstance(node, ast.Member | ast.Index) or (isinstance(node, ast.Unary) and node.op == "*")


def _is_direct(node: ast.Expr) -> bool:
    """Whether the expression is a name, or a member of one, so that it is part of the match itself."""
    while isinstance(node, ast.Member) and not node.arrow:
        node = node.base
    return isinstance(node, ast.Name)


def _leaf(node: ast.Expr) -> str:
    match node:
        case ast.Number(value=value, suffix="char"):
            return str(value)
        case ast.Number(value=value, suffix=suffix, decimal=decimal):
            return (str(value) if decimal else hex(value)) + suffix
        case ast.Text(value=value):
            return quoted(value)
        case ast.SizeofType(type=type_):
            return f"sizeof({type_text(type_)})"
        case ast.Offsetof(type=type_, member=member):
            return f"offsetof({type_text(type_)}, {member})"
    raise AssertionError(node)


def _kind(node: ast.Expr) -> str:
    return str(getattr(node, "op", "")) or type(node).__name__.lower()

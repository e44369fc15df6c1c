# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expressions as C. What can go wrong at a probe notes the fault and goes to the label ``fault`` of the clause.

The C wraps where D does (-fwrapv), and never does what C leaves undefined: divisors, shifts and indices are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gilk.lang.d import tree
from gilk.lang.d.code import intrinsics
from gilk.lang.d.code.emit import Names, c_type, constant, string
from gilk.lang.d.code.places import Places, bit_field
from gilk.lang.d.types import Array, Integer, Pointer, Record, String, Void


class Expressions:
    def __init__(self, strsize: int, globals_start: int) -> None:
        self._strsize = strsize
        self._name = Names()
        self.places = Places(self.emit, self._name, strsize, globals_start)

    def emit(self, expression: tree.Expression) -> str:
        """Of the C type that goes with its type."""
        handler: Callable[[Any, Any], str] = _HANDLERS[type(expression)]
        return handler(self, expression)

    def _constant(self, node: tree.Constant) -> str:
        return constant(node.type, node.value)

    def _literal(self, node: tree.Literal) -> str:
        return string(node.value, self._strsize - 1)

    def _builtin(self, node: tree.Builtin) -> str:
        if node.index is not None:
            return f"gd_register(c, {self.emit(node.index)})"
        return intrinsics.emit(node)

    def _place(self, node: tree.Place | tree.Keyed | tree.Part) -> str:
        return self.places.read(node)

    def _field(self, node: tree.Field) -> str:
        if isinstance(node.type, Record | Array):
            return self.emit(node.address)
        value = self._name()
        load = f"if (!gd_load(c, &{value}, {self.emit(node.address)}, sizeof {value})) goto fault;"
        read = bit_field(value, node.type, node.bits, node.shift) if node.bits else value
        return f"({{ {c_type(node.type)} {value}; {load} {read}; }})"

    # Operators.

    def _unary(self, node: tree.Unary) -> str:
        return f"(({c_type(node.type)})({node.operator}{self.emit(node.operand)}))"

    def _binary(self, node: tree.Binary) -> str:
        left, right, kind = self.emit(node.left), self.emit(node.right), c_type(node.type)
        if node.operator == "^^":
            return f"((gd_s32)(!{left} != !{right}))"
        if isinstance(node.left.type, String):
            return f"((gd_s32)(gd_strcmp(c, {left}, {right}) {node.operator} 0))"
        if node.operator in ("/", "%"):
            return self._divide(node.operator, kind, left, right, isinstance(node.type, Integer) and node.type.signed)
        if node.operator in ("<<", ">>"):
            bits = 8 * node.type.size if isinstance(node.type, Integer) else 64
            return f"(({kind})({left} {node.operator} ({right} & {bits - 1})))"
        return f"(({kind})({left} {node.operator} {right}))"

    def _divide(self, operator: str, kind: str, left: str, right: str, signed: bool) -> str:
        """The smallest number divided by -1 would be a trap, not a value."""
        a, b = self._name(), self._name()
        check = f"if (!{b}) {{ gd_fail(c, GD_FAULT_DIVIDE, 0); goto fault; }}"
        value = f"{a} {operator} {b}"
        if signed:
            value = f"{b} == -1 ? {f'-{a}' if operator == '/' else '0'} : {value}"
        return f"({{ {kind} {a} = {left}, {b} = {right}; {check} ({kind})({value}); }})"

    def _conditional(self, node: tree.Conditional) -> str:
        return f"({self.emit(node.test)} ? {self.emit(node.yes)} : {self.emit(node.no)})"

    def _comma(self, node: tree.Comma) -> str:
        if isinstance(node.left.type, Void):
            return f"({{ {self.emit(node.left)}; {self.emit(node.right)}; }})"
        return f"({{ (void){self.emit(node.left)}; {self.emit(node.right)}; }})"

    def _convert(self, node: tree.Convert) -> str:
        operand = node.operand
        if isinstance(node.type, String):
            return self._string(operand)
        if isinstance(node.type, Void):
            return f"((void){self.emit(operand)})"
        return f"(({c_type(node.type)}){self.emit(operand)})"

    def _string(self, operand: tree.Expression) -> str:
        """Of characters: in a variable they may fill it, without a NUL; elsewhere they are copied from the process."""
        to = self._name("s")
        room = f"char *{to} = gd_alloca(c, {self._strsize}); if (!{to}) goto fault;"
        if isinstance(operand.type, Array):
            size = min(operand.type.count, self._strsize - 1)
            take = f"gd_bytes({to}, (const void *){self.emit(operand)}, {size}); {to}[{size}] = 0;"
        else:
            address = self.emit(operand)
            take = f"if (!gd_copyin_string(c, {to}, (gd_u64){address}, {self._strsize})) goto fault;"
        return f"({{ {room} {take} (const char *){to}; }})"

    # Assignment.

    def _assign(self, node: tree.Assign) -> str:
        value, target = self._name(), node.target
        if node.operator:
            given = self._binary(_applied(node))
            kind = c_type(target.type)
            return f"({{ {kind} {value} = ({kind}){given}; {self.places.write(target, value)}{value}; }})"
        return (
            f"({{ {c_type(target.type)} {value} = {self._nullable(node.value)}; "
            f"{self.places.write(target, value)}{value}; }})"
        )

    def _step(self, node: tree.Step) -> str:
        old, new, kind = self._name(), self._name(), c_type(node.type)
        text = f"{kind} {old} = {self.places.read(node.target)}; {kind} {new} = ({kind})({old} + ({node.by})); "
        return f"({{ {text}{self.places.write(node.target, new)}{new if node.before else old}; }})"

    def _call(self, node: tree.Call) -> str:
        """A string that is not there is an address that cannot be used."""
        text = self._nullable(node)
        if node.name not in intrinsics.NULLABLE:
            return text
        value = self._name("s")
        check = f"if (!{value}) {{ gd_fail(c, GD_FAULT_ADDRESS, 0); goto fault; }}"
        return f"({{ const char *{value} = {text}; {check} {value}; }})"

    def _nullable(self, node: tree.Expression) -> str:
        """Where NULL will do, for what may be."""
        if not isinstance(node, tree.Call):
            return self.emit(node)
        emit = self._nullable if node.name == "is_set" else self.emit
        arguments = [emit(argument) for argument in node.arguments]
        return intrinsics.call(node, arguments, self._strsize, self._name)


def _applied(node: tree.Assign) -> tree.Binary:
    """What a compound assignment computes, in the type of its right side."""
    type_ = node.value.type
    if node.operator in ("<<", ">>"):
        type_ = node.target.type if isinstance(node.target.type, Integer) and node.target.type.size >= 4 else type_
    if isinstance(node.target.type, Pointer):
        type_ = node.value.type
    return tree.Binary(type_, node.operator, tree.Convert(type_, node.target), node.value)


_HANDLERS: dict[type, Callable[[Expressions, Any], str]] = {
    tree.Constant: Expressions._constant,
    tree.Literal: Expressions._literal,
    tree.Builtin: Expressions._builtin,
    tree.Place: Expressions._place,
    tree.Keyed: Expressions._place,
    tree.Part: Expressions._place,
    tree.Field: Expressions._field,
    tree.Unary: Expressions._unary,
    tree.Binary: Expressions._binary,
    tree.Conditional: Expressions._conditional,
    tree.Convert: Expressions._convert,
    tree.Assign: Expressions._assign,
    tree.Step: Expressions._step,
    tree.Comma: Expressions._comma,
    tree.Call: Expressions._call,
}

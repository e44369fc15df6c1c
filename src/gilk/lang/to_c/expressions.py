# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of expressions as C. Code that fails at a probe notes the fault and jumps to the label ``fault`` of the
function.

The C wraps (-fwrapv) and never does what C leaves undefined, since it checks divisors, shifts and indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from gilk.lang import effects, ir
from gilk.lang.nulls import Nulls
from gilk.lang.to_c import calls
from gilk.lang.to_c.emit import FreshNames, c_type, constant, string
from gilk.lang.to_c.machine import PRINTERS
from gilk.lang.to_c.places import Emit, PlacePrinter, bit_field
from gilk.lang.types import STRING, UINT64, Array, Integer, Record, String, Type, Void, wide
from gilk.lang.walk import with_parts
from gilk.values import dataclass

#: The first argument of strtok() when it continues with the rest of a text.
NO_STRING = ir.Constant(STRING, 0)


class ExpressionPrinter:
    def __init__(
        self, strsize: int, globals_start: int, nulls: Nulls | None = None, scratchsize: int = 0
    ) -> None:  # fmt: skip
        self._strsize, self._scratchsize = strsize, scratchsize
        self._nulls = nulls or Nulls()
        self._name = FreshNames()
        self._bound: dict[int, str] = {}
        self.places = PlacePrinter(self.emit, self._name, strsize, globals_start, self._nulls)

    def emit(self, expression: ir.Expression) -> str:
        """The C of an expression, of the C type of the node. It faults if a string is NULL."""
        text = self.nullable(expression)
        if not self._nulls.may_be(expression):
            return text
        value = self._name("s")
        check = f"if (!{value}) {{ gd_fail(c, GD_FAULT_ADDRESS, 0); goto fault; }}"
        return f"({{ const char *{value} = {text}; {check} {value}; }})"

    def nullable(self, expression: ir.Expression) -> str:
        """The C of an expression that may be NULL."""
        handler: Callable[[Any, Any], str] | None = _HANDLERS.get(type(expression))
        return handler(self, expression) if handler is not None else PRINTERS[type(expression)](self.emit, expression)

    def _constant(self, node: ir.Constant) -> str:
        return constant(node.type, node.value)

    def _named(self, node: _Named) -> str:
        return node.name

    def _parameter(self, node: ir.Bound) -> str:
        return self._bound[node.number]

    def _let(self, node: ir.Let) -> str:
        text, outer = "", self._bound
        for number, value in node.bindings:
            name, given = self._name(), self.nullable(value)
            text += f"{c_type(value.type)} {name} = {given}; "
            self._bound = {**self._bound, number: name}
        body = self.nullable(node.body)
        self._bound = outer
        return f"({{ {text}{body}; }})"

    def _xlate(self, node: ir.Xlate) -> str:
        """The C of a translation as a whole, which has no value; only its bindings may have effects."""
        return self._let(ir.Let(UINT64, node.bindings, ir.Constant(UINT64, 0)))

    def _literal(self, node: ir.Literal) -> str:
        return string(node.value, self._strsize - 1)

    def _argument(self, node: ir.Argument) -> str:
        return f"((gd_s64)c->event->arg[{node.number}])"

    def _local(self, node: ir.Local) -> str:
        return f"(({c_type(node.type)})c->event->local[{node.number}])"

    def _register(self, node: ir.Register) -> str:
        value = self._name()
        read = f"gd_u64 {value} = gd_register(c, {self.emit(node.index)});"
        return f"({{ {read} if (c->fault) goto fault; {value}; }})"

    def _place(self, node: ir.Place | ir.Keyed | ir.Part) -> str:
        return self.places.read(node)

    def _field(self, node: ir.Field) -> str:
        value = self._name()
        if isinstance(node.type, Record | Array):
            size = self.places.size(node.type)
            room = f"gd_u8 *{value} = gd_alloca(c, {size}); if (!{value}) goto fault;"
            load = f"if (!gd_load(c, {value}, {self.emit(node.address)}, {size})) goto fault;"
            return f"({{ {room} {load} (gd_u64){value}; }})"
        load = f"if (!gd_load(c, &{value}, {self.emit(node.address)}, sizeof {value})) goto fault;"
        read = bit_field(value, node.type, node.bits, node.shift) if node.bits else value
        return f"({{ {c_type(node.type)} {value}; {load} {read}; }})"

    def _address(self, node: ir.Address) -> str:
        return f"((gd_u64){self.places.start(node.of)})"

    # Operators.

    def _unary(self, node: ir.Unary) -> str:
        return f"(({c_type(node.type)})({node.operator}{self.emit(node.operand)}))"

    def _binary(self, node: ir.Binary) -> str:
        if node.operator in ("&&", "||"):
            return self._operated(node, self.nullable(node.left), self.nullable(node.right))
        before, (left, right) = self.in_order((node.left, node.right), self.nullable)
        text = self._operated(node, left, right)
        return f"({{ {before}{text}; }})" if before else text

    def _operated(self, node: ir.Binary, left: str, right: str) -> str:
        kind = c_type(node.type)
        if node.operator == "^^":
            return f"((gd_s32)(!{left} != !{right}))"
        if isinstance(node.left.type, String):
            compare = "gd_compare" if any(map(self._nulls.may_be, (node.left, node.right))) else "gd_strcmp"
            return f"((gd_s32)({compare}(c, {left}, {right}) {node.operator} 0))"
        if node.operator in ("/", "%"):
            return self._divide(node.operator, kind, left, right, isinstance(node.type, Integer) and node.type.signed)
        if node.operator in ("<<", ">>"):
            bits = 8 * node.type.size if isinstance(node.type, Integer) else 64
            return f"(({kind})({left} {node.operator} ({right} & {bits - 1})))"
        return f"(({kind})({left} {node.operator} {right}))"

    def in_order(self, values: Sequence[ir.Expression], emit: Emit | None = None) -> tuple[str, list[str]]:
        """C for operands that are evaluated from left to right, as in D. If they have effects, the first result
        declares C variables with their values, and the second has the names of these.
        """
        emit = emit or self.emit
        if len(values) < 2 or not any(map(effects.has, values)):
            return "", [emit(value) for value in values]
        names = [self._name() for _ in values]
        given = zip(values, names, strict=True)
        return "".join(f"{c_type(value.type)} {name} = {emit(value)}; " for value, name in given), names

    def _divide(self, operator: str, kind: str, left: str, right: str, signed: bool) -> str:
        """A division, with checks: by 0 it is a fault, and the smallest number divided by -1, which would
        trap, wraps.
        """
        a, b = self._name(), self._name()
        check = f"if (!{b}) {{ gd_fail(c, GD_FAULT_DIVIDE, 0); goto fault; }}"
        value = f"{a} {operator} {b}"
        if signed:
            value = f"{b} == -1 ? {f'-{a}' if operator == '/' else '0'} : {value}"
        return f"({{ {kind} {a} = {left}, {b} = {right}; {check} ({kind})({value}); }})"

    def _conditional(self, node: ir.Conditional) -> str:
        return f"({self.emit(node.test)} ? {self.nullable(node.yes)} : {self.nullable(node.no)})"

    def _comma(self, node: ir.Comma) -> str:
        if isinstance(node.left.type, Void):
            return f"({{ {self.emit(node.left)}; {self.nullable(node.right)}; }})"
        return f"({{ (void){self.nullable(node.left)}; {self.nullable(node.right)}; }})"

    def _convert(self, node: ir.Convert) -> str:
        operand = node.operand
        if isinstance(node.type, String):
            return self._string(operand)
        if isinstance(node.type, Void):
            return f"((void){self.emit(operand)})"
        return f"(({c_type(node.type)}){self.emit(operand)})"

    def _string(self, operand: ir.Expression) -> str:
        """A string made of characters. In a variable they may fill its whole array, without a NUL; from elsewhere they
        are copied from the process.
        """
        to = self._name("s")
        room = f"char *{to} = gd_alloca(c, {self._strsize}); if (!{to}) goto fault;"
        if isinstance(operand.type, Array):
            size = min(operand.type.count, self._strsize - 1)
            take = f"gd_bcopy({to}, (const void *){self.emit(operand)}, {size}); {to}[{size}] = 0;"
        else:
            address = self.emit(operand)
            take = f"if (!gd_copyin_string(c, {to}, (gd_u64){address}, {self._strsize})) goto fault;"
        return f"({{ {room} {take} (const char *){to}; }})"

    # Assignment.

    def _assign(self, node: ir.Assign) -> str:
        value, kind = self._name(), c_type(node.target.type)
        if not node.operator:
            write = self.places.write(node.target, value)
            return f"({{ {kind} {value} = {self.nullable(node.value)}; {write}{_kept(node.target, value)}; }})"
        before, target = self._once(node.target)
        given = self._binary(applied(replace(node, target=target)))
        write = self.places.write(target, value)
        return f"({{ {before}{kind} {value} = ({kind}){given}; {write}{_kept(target, value)}; }})"

    def _once(self, target: ir.Target) -> tuple[str, ir.Target]:
        """A target that is both read and written, and C before it that evaluates its keys and indices once, if they
        have effects.
        """
        if not effects.has(target):
            return "", target
        texts: list[str] = []

        def named(value: ir.Expression) -> ir.Expression:
            name = self._name()
            texts.append(f"{c_type(value.type)} {name} = {self.emit(value)}; ")
            return cast(ir.Expression, _Named(value.type, name))

        found = with_parts(target, named)
        return "".join(texts), found

    def _step(self, node: ir.Step) -> str:
        old, new, kind = self._name(), self._name(), c_type(node.type)
        before, target = self._once(node.target)
        text = f"{before}{kind} {old} = {self.places.read(target)}; {kind} {new} = ({kind})({old} + ({node.by})); "
        return f"({{ {text}{self.places.write(target, new)}{_kept(target, new) if node.before else old}; }})"

    def _call(self, node: ir.Call) -> str:
        before, arguments = self.in_order(node.arguments, self._argument_of(node))
        text = calls.call(node, arguments, self._strsize, self._scratchsize, self._name)
        return f"({{ {before}{text}; }})" if before else text

    def _argument_of(self, node: ir.Call) -> Emit:
        """The printer for the arguments of a call. strtok() and the functions in TAKE_NULL handle NULL themselves."""
        if node.name in calls.TAKE_NULL or (node.name == "strtok" and node.arguments[0] == NO_STRING):
            return self.nullable
        return self.emit


@dataclass(frozen=True, slots=True)
class _Named:
    """An expression whose value is in a C variable."""

    type: Type
    name: str


def _kept(target: ir.Target, value: str) -> str:
    """The value of ``target`` after the C variable ``value`` has been assigned to it; a bit-field keeps
    only its bits.
    """
    if isinstance(target, ir.Part | ir.Field) and target.bits:
        return bit_field(f"((gd_u64){value} << {target.shift})", target.type, target.bits, target.shift)
    return value


def applied(node: ir.Assign) -> ir.Binary:
    """The operation of a compound assignment, in the type of its right side; a shift has the type of the left side."""
    type_ = wide(node.target.type) if node.operator in ("<<", ">>") else node.value.type
    return ir.Binary(type_, node.operator, ir.Convert(type_, node.target), node.value)


_HANDLERS: dict[type, Callable[[ExpressionPrinter, Any], str]] = {
    ir.Constant: ExpressionPrinter._constant,
    ir.Literal: ExpressionPrinter._literal,
    ir.Argument: ExpressionPrinter._argument,
    ir.Local: ExpressionPrinter._local,
    ir.Register: ExpressionPrinter._register,
    ir.Place: ExpressionPrinter._place,
    ir.Keyed: ExpressionPrinter._place,
    ir.Part: ExpressionPrinter._place,
    ir.Field: ExpressionPrinter._field,
    ir.Address: ExpressionPrinter._address,
    ir.Unary: ExpressionPrinter._unary,
    ir.Binary: ExpressionPrinter._binary,
    ir.Conditional: ExpressionPrinter._conditional,
    ir.Convert: ExpressionPrinter._convert,
    ir.Assign: ExpressionPrinter._assign,
    ir.Step: ExpressionPrinter._step,
    ir.Comma: ExpressionPrinter._comma,
    ir.Bound: ExpressionPrinter._parameter,
    ir.Let: ExpressionPrinter._let,
    ir.Xlate: ExpressionPrinter._xlate,
    ir.Call: ExpressionPrinter._call,
    _Named: ExpressionPrinter._named,
}

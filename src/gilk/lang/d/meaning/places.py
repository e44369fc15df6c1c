# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places, which can be assigned to or are reached by index or member: variables, their elements and members, and
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import constants, keying, operands, substitution
from gilk.lang.d.meaning.arguments import Arguments
from gilk.lang.d.meaning.builtins import BUILTINS, CONSTANTS, REGISTERS
from gilk.lang.d.meaning.calls import is_of_another_context
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.layout import Layout
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import (
    CHAR,
    INT64,
    STRING,
    UINT64,
    VOID,
    Array,
    Dynamic,
    Float,
    Member,
    Pointer,
    Record,
    Special,
    String,
    Translated,
    Type,
    Void,
    is_arithmetic,
    is_scalar,
    signed,
    text,
)

Check = Callable[[ast.Expr], ir.Expression]


class Places:
    """The compiler of places. ``check`` checks expressions as they are, ``value`` also turns arrays into addresses."""

    def __init__(
        self, scope: Scope, declarations: Declarations, arguments: Arguments, check: Check, value: Check
    ) -> None:
        self._scope = scope
        self._declarations = declarations
        self._arguments = arguments
        self._check = check
        self._value = value

    # Variables.

    def of(self, variable: tree.Variable, span: Span) -> ir.Expression:
        if variable.keys is not None:
            raise Rejected(Tag.D_OP_DYN, span, f"an associative array is used without keys: {variable.name}")
        return self._place(variable)

    def _place(self, variable: tree.Variable) -> ir.Place | ir.Keyed:
        type_ = self._declarations.complete(variable.type)
        if variable.scope == "self":
            return ir.Keyed(type_, variable.number, True, (), (), 0)
        return ir.Place(type_, variable.scope, variable.offset)

    def named(self, variable: ast.Variable) -> ir.Expression:
        known = self._scope.variable(variable.scope, variable.name)
        if known is None:
            name = f"{variable.scope}->{variable.name}"
            raise Rejected(Tag.D_IDENT_UNDEF, variable.span, f"failed to resolve {name}: Unknown variable name")
        return self.of(known, variable.span)

    def _known(self, expression: ast.Expr) -> tuple[str, str] | None:
        """The scope and the name, if the expression is just the name of a variable; otherwise None."""
        match expression:
            case ast.Name(name=name):
                return "global", name
            case ast.Variable(scope=scope, name=name):
                return scope, name
        return None

    # Assignment.

    def assign(self, expression: ast.Assign) -> ir.Expression:
        operator = expression.op[:-1]
        if isinstance(expression.target, ast.Index) and isinstance(expression.target.base, ast.Aggregate):
            raise multidimensional(expression.target.base, expression.span)
        value = self._value(expression.value)
        if operator and isinstance(value.type, Void):
            self._check_there(expression.target)
        self._check_assigned(value, expression)
        if isinstance(expression.target, ast.Unary) and expression.op == "=":
            written = self._check(expression.target)
            if isinstance(written, ir.Convert) and isinstance(written.type, String):
                return self._write_text(written.operand, value, expression)
        target = self._target(
            expression.target, INT64 if operator and is_arithmetic(value.type) else value.type, expression.op
        )
        if operator:
            return self._compound(target, operator, value, expression)
        if isinstance(target.type, Array):
            what = f'operator {expression.op} may not be applied to operand of type "{text(target.type)}"'
            raise Rejected(Tag.D_OP_ARRFUN, expression.span, what)
        if isinstance(target.type, String) and operands.is_null(value):
            return ir.Assign(target.type, target, "", operands.NO_STRING)
        if isinstance(target, ir.Keyed) and isinstance(target.type, Record) and operands.is_null(value):
            return ir.Assign(target.type, target, "", ir.Constant(target.type, 0))
        if isinstance(target.type, Pointer):
            value = operands.placed(value)
        mixed = operands.is_mixed(target.type, value)
        if mixed or not operands.is_assignable(target.type, value.type) or isinstance(value.type, Float):
            raise Rejected(*operands.incompatible(expression.op, target.type, value.type, expression.span))
        return ir.Assign(target.type, target, "", operands.converted(target.type, value, expression.span))

    def _write_text(self, to: ir.Expression, value: ir.Expression, expression: ast.Assign) -> ir.Expression:
        """Copy a string, with its NUL, to memory of alloca(); to other memory it is a fault."""
        if not operands.is_assignable(STRING, value.type):
            raise Rejected(*operands.incompatible(expression.op, STRING, value.type, expression.span))
        given, bindings = substitution.bind(self._scope, STRING, value, expression.span)
        size = constants.binary("+", UINT64, ir.Call(UINT64, "strlen", (given,)), ir.Constant(UINT64, 1))
        copied = ir.Call(VOID, "bcopy_string", (given, constants.convert(UINT64, to), size))
        return substitution.let(bindings, ir.Comma(STRING, copied, given))

    def _check_there(self, target: ast.Expr) -> None:
        """Check that a variable exists whose old value an assignment needs, since that gives it no type. Raises
        Rejected."""
        name = self._known(target)
        if name is not None and self._scope.variable(*name) is None and name[1] not in BUILTINS:
            raise Rejected(Tag.D_VAR_UNDEF, target.span, f"{name[1]} has not yet been declared or assigned")

    @staticmethod
    def _check_assigned(value: ir.Expression, expression: ast.Assign) -> None:
        if is_of_another_context(value) and isinstance(value.type, Void):
            raise Rejected(Tag.D_OP_ACT, expression.span, f"operator {expression.op} operands cannot be actions")
        if isinstance(value.type, Void | Special):
            raise Rejected(Tag.D_OP_VOID, expression.span, f"cannot assign a value of type {text(value.type)}")
        if isinstance(value.type, Dynamic | Translated):
            what = f"operator {expression.op} operands cannot be of dynamic type"
            raise Rejected(Tag.D_OP_DYN, expression.span, what)
        if isinstance(value.type, Record) and not value.type.complete:
            raise Rejected(Tag.D_OP_INCOMPLETE, expression.span, f"{text(value.type)} is incomplete")

    def _compound(
        self, target: ir.Target, operator: str, value: ir.Expression, expression: ast.Assign
    ) -> ir.Expression:
        if operator in ("+", "-"):
            self._check_moved(target.type, value.type, expression)
        whole = operands.binary(
            operator, self._declarations.stepping(target), value, expression.span, self._scope.strsize
        )
        if not isinstance(whole, ir.Binary | ir.Convert) or isinstance(value.type, Pointer):
            raise Rejected(*operands.incompatible(expression.op, target.type, value.type, expression.span))
        if isinstance(whole, ir.Convert):  # the target is a pointer
            assert isinstance(whole.operand, ir.Binary)
            return ir.Assign(target.type, target, operator, whole.operand.right)
        return ir.Assign(target.type, target, operator, whole.right)

    @staticmethod
    def _check_moved(target: Type, value: Type, expression: ast.Assign) -> None:
        if isinstance(target, String) or isinstance(value, String):
            raise Rejected(*operands.incompatible(expression.op, target, value, expression.span))
        if is_arithmetic(target) and is_arithmetic(value):
            return
        if not isinstance(target, Pointer) or isinstance(target.to, Void):
            what = f"operator {expression.op} requires left-hand scalar operand of known size"
            raise Rejected(Tag.D_OP_VFPTR, expression.span, what)

    def step(self, operand: ast.Expr, by: int, before: bool) -> ir.Expression:
        target = self._target(operand, INT64, "++" if by > 0 else "--")
        if not is_scalar(target.type):
            raise Rejected(
                Tag.D_OP_SCALAR, operand.span, f"operator {'++' if by > 0 else '--'} requires operand of scalar type"
            )
        if isinstance(target.type, Pointer):
            if isinstance(target.type.to, Void):
                what = f"operator {'++' if by > 0 else '--'} requires an operand of known size"
                raise Rejected(Tag.D_OP_VFPTR, operand.span, what)
            by *= max(self._scope.size(self._declarations.complete(target.type.to)), 1)
        return ir.Step(target.type, target, by, before)

    def _target(self, expression: ast.Expr, type_: Type, operator: str) -> ir.Target:
        """The place that ``expression`` names. A variable that is not known yet is declared, with ``type_``. Raises
        Rejected.
        """
        name = self._known(expression)
        if name is not None:
            return self._target_by_name(expression, *name, type_, operator)
        if isinstance(expression, ast.Index):
            self._declare_array(expression, type_)
        found = self._check(expression)
        if isinstance(found, ir.Call) and found.name == "character":
            found = self._character(*found.arguments)
        if isinstance(found, ir.Place | ir.Keyed | ir.Part):
            return found
        if isinstance(found, ir.Field) and not _is_fixed(found.address):
            return found
        if isinstance(found, ir.Field):
            raise Rejected(
                Tag.D_OP_WRITE, expression.span, f"operator {operator} cannot be applied to memory of the process",
                "copyout() writes there",
            )  # fmt: skip
        raise Rejected(Tag.D_OP_LVAL, expression.span, f"operator {operator} requires modifiable lvalue as an operand")

    def _character(self, string: ir.Expression, key: ir.Expression) -> ir.Expression:
        """The place of a character of a string that a variable holds, but for its last NUL; other strings are no
        place."""
        if not isinstance(string, ir.Place | ir.Keyed | ir.Part):
            return string
        characters = Array(CHAR, self._scope.strsize - 1)
        return self._part(replace(string, type=characters), characters, key)

    def _target_by_name(self, expression: ast.Expr, scope: str, name: str, type_: Type, operator: str) -> ir.Target:
        known = self._scope.variable(scope, name)
        if known is None:
            if scope == "global" and (name in BUILTINS or name in CONSTANTS or name in self._scope.inlines):
                raise Rejected(
                    Tag.D_OP_WRITE, expression.span, f"operator {operator} can only be applied to a writable variable"
                )
            if scope == "global" and name in self._scope.enumerators:
                raise Rejected(Tag.D_OP_LVAL, expression.span, f"{name} cannot be assigned to")
            known = self._scope.declare(expression.span, tree.Variable(name, scope, type_))
        if known.keys is not None:
            raise Rejected(Tag.D_OP_DYN, expression.span, f"an associative array is used without keys: {name}")
        return self._place(known)

    # Elements.

    def _declare_array(self, expression: ast.Index, type_: Type) -> None:
        """Declare an associative array that is assigned to for the first time."""
        name = self._known(expression.base)
        if name is None or self._scope.variable(*name) is not None:
            return
        if name[0] == "global" and (name[1] in BUILTINS or name[1] in self._scope.inlines or name[1] == "args"):
            return
        values = [(self._value(key), key.span) for key in expression.keys]
        keying.check(expression.span, "associative array", [value.type for value, _ in values])
        keys = tuple(_key_type(value, span) for value, span in values)
        self._scope.declare(expression.span, tree.Variable(name[1], name[0], type_, keys))

    def _register_number(self, name: str, expression: ast.Index) -> ir.Expression:
        """The number of a register, as it is in brackets. Raises Rejected `D_UNKNOWN` if there is none with it."""
        number = constants.convert(UINT64, self._only_key(name, expression))
        if isinstance(number, ir.Constant) and not 0 <= number.value < REGISTERS:
            what = f"{name}[]: index out of bounds ({signed(number.value)})"
            raise Rejected(Tag.D_UNKNOWN, expression.span, what)
        return number

    def index(self, expression: ast.Index, at: Callable[[ir.Expression, ast.Expr], ir.Expression]) -> ir.Expression:
        """The element that an index reaches. ``at`` makes the expression for the memory to which a pointer leads.
        Raises Rejected.
        """
        name = self._known(expression.base)
        known = self._scope.variable(*name) if name is not None else None
        if known is not None and known.keys is not None:
            return self._element(known, known.keys, expression)
        if name == ("global", "args") and known is None:
            return self._argument(expression)
        own = BUILTINS.get(name[1]) if name is not None and known is None and name[0] == "global" else None
        if isinstance(own, Array) and isinstance(expression.base, ast.Name):
            return ir.Register(own.of, self._register_number(expression.base.name, expression))
        if len(expression.keys) != 1:
            what = f"cannot access {'an expression' if name is None else 'scalar ' + name[1]} as an associative array"
            raise Rejected(Tag.D_ARR_BADREF, expression.span, what)
        key = self._value(expression.keys[0])
        if not is_arithmetic(key.type):
            raise Rejected(Tag.D_ARR_INDEX, expression.span, "an index must be of integral type")
        base = self._check(expression.base)
        _check_bounds(self._declared(expression.base, base), key, expression.span)
        if isinstance(base, ir.Place | ir.Keyed | ir.Part) and isinstance(base.type, Array):
            return self._part(base, base.type, key)
        if isinstance(base.type, String):
            return ir.Call(CHAR, "character", (base, constants.convert(UINT64, key)))
        pointer = self._declarations.stepping(operands.decayed(base))
        if not isinstance(pointer.type, Pointer):
            raise Rejected(Tag.D_ARR_BADREF, expression.span, "[ ] must be applied to an array or a pointer")
        if isinstance(pointer.type.to, Void):
            return at(pointer, expression)
        return at(operands.offset(pointer, "+", key, self._scope.strsize), expression)

    def _declared(self, expression: ast.Expr, found: ir.Expression) -> Type:
        """The type of an indexed value. Characters of a translated struct are a string, but declared as an array."""
        if isinstance(found.type, String) and isinstance(expression, ast.Member):
            owner = self._check(expression.base)
            member = owner.type.record.member(expression.name) if isinstance(owner.type, Translated) else None
            return found.type if member is None else member.type
        return found.type

    def _element(self, known: tree.Variable, types: tuple[Type, ...], expression: ast.Index) -> ir.Keyed:
        given = [self._value(key) for key in expression.keys]
        if len(given) != len(types):
            keying.check_alike(expression.span, known.name, types, [key.type for key in given])
        layout, keys, data = Layout(self._scope.strsize), [], []
        for number, (key, type_) in enumerate(zip(given, types, strict=True), 1):
            if not operands.is_assignable(type_, key.type):
                raise keying.mismatch(expression.span, known.name, number, type_, key.type)
            keys.append(operands.converted(type_, key, expression.span))
            data.append(layout.add(keys[-1], expression.span))
        type_ = self._declarations.complete(known.type)
        return ir.Keyed(type_, known.number, known.scope == "self", tuple(keys), tuple(data), layout.size)

    def _only_key(self, name: str, expression: ast.Index) -> ir.Constant:
        given = [self._value(key) for key in expression.keys]
        if len(given) != 1:
            what = f"{name}[ ] prototype mismatch: {len(given)} args passed, 1 expected"
            raise Rejected(Tag.D_PROTO_LEN, expression.span, what)
        if not isinstance(given[0], ir.Constant) or not is_arithmetic(given[0].type):
            both = f"\tprototype: integer constant\n\t argument: {text(given[0].type)}"
            what = f"{name}[ ] argument #1 is incompatible with prototype:\n{both}"
            raise Rejected(Tag.D_PROTO_ARG, expression.span, what)
        return given[0]

    def _argument(self, expression: ast.Index) -> ir.Expression:
        key = self._only_key("args", expression)
        return self._arguments.argument(key.value, expression.span)

    def _part(self, base: ir.Place | ir.Keyed | ir.Part, array: Array, key: ir.Expression) -> ir.Expression:
        index = (constants.convert(UINT64, key), array.count, self._scope.size(array.of))
        if isinstance(base, ir.Part):
            return replace(base, type=array.of, indices=(*base.indices, index))
        return ir.Part(array.of, base, 0, (index,))

    def member(self, base: ir.Expression, member: Member) -> ir.Expression:
        type_ = self._declarations.complete(member.type)
        if isinstance(base, ir.Field):
            address = operands.moved(base.address, member.offset)
            return operands.at(type_, address, member.bits, member.shift)
        if isinstance(base, ir.Part):
            return replace(base, type=type_, offset=base.offset + member.offset, bits=member.bits, shift=member.shift)
        if isinstance(base, ir.Let):
            return replace(base, type=type_, body=self.member(base.body, member))
        if isinstance(base, ir.Place | ir.Keyed):
            return ir.Part(type_, base, member.offset, (), member.bits, member.shift)
        start = operands.moved(ir.Convert(Pointer(type_), base), member.offset)
        return operands.at(type_, start, member.bits, member.shift)


def multidimensional(base: ast.Aggregate, span: Span) -> Rejected:
    what = f"improper attempt to reference @{base.name} as a multi-dimensional array"
    return Rejected(Tag.D_AGG_MDIM, span, what)


def _check_bounds(type_: Type, key: ir.Expression, span: Span) -> None:
    """Raises Rejected if a constant index is outside of an array. Arrays with one element or none may stand for longer
    ones at the ends of structs.
    """
    if not isinstance(type_, Array) or not isinstance(key, ir.Constant) or type_.count < 2:
        return
    if not 0 <= key.value < type_.count:
        index = key.value & (1 << 64) - 1
        raise Rejected(Tag.D_ARR_BOUNDS, span, f"index outside array bounds: {index}, max is {type_.count}")


def _is_fixed(address: ir.Expression) -> bool:
    """Whether the address is constant, or that of a variable of the program; then no scratch memory can be there."""
    while isinstance(address, ir.Convert):
        address = address.operand
    return isinstance(address, ir.Constant | ir.Local)


def _key_type(value: ir.Expression, span: Span) -> Type:
    if is_scalar(value.type) or isinstance(value.type, String):
        return value.type
    if isinstance(value.type, Record) and value.type.complete:
        return value.type
    raise Rejected(Tag.D_KEY_TYPE, span, f"a value of type {text(value.type)} cannot be a key")

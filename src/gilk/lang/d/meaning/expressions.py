# SPDX-License-Identifier: LGPL-2.1-or-later
"""The checker of expressions: it finds the meaning and the type of each. An expression that makes no sense is Rejected,
with DTrace's own tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gilk.lang import ir
from gilk.lang.d import ast
from gilk.lang.d.meaning import constants, operands
from gilk.lang.d.meaning.arguments import Arguments
from gilk.lang.d.meaning.builtins import BUILTINS, CONSTANTS, DEPTHS, OF_STACKS, OF_THE_KERNEL, builtin, is_builtin
from gilk.lang.d.meaning.calls import Calls, is_of_another_context
from gilk.lang.d.meaning.declarations import Declarations, only_types
from gilk.lang.d.meaning.inlines import Inlines
from gilk.lang.d.meaning.locals import Locals
from gilk.lang.d.meaning.places import Places, multidimensional
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.meaning.translators import Translators, without_pointer
from gilk.lang.d.meaning.world import Symbol
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import (
    DYNAMIC,
    INT,
    LONG,
    STRING,
    UINT,
    UINT64,
    ULONG,
    VOID,
    Array,
    Dynamic,
    Pointer,
    Record,
    Special,
    String,
    Translated,
    Void,
    is_arithmetic,
    is_scalar,
    ranked,
    text,
)

_BY_SUFFIX = {"": (INT, UINT, LONG, ULONG), "u": (UINT, ULONG), "l": (LONG, ULONG), "ll": (LONG, ULONG)}


class Expressions:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.declarations = Declarations(scope, self.value)
        self.calls = Calls(scope, self.check)
        self.translators = Translators(scope, self.declarations, self.check)
        self.inlines = Inlines(scope, self.declarations, self.check)
        self.arguments = Arguments(scope, self.declarations, self.translators)
        self.locals = Locals(scope, self.declarations)
        self._places = Places(scope, self.declarations, self.arguments, self.check, self.value)

    def check(self, expression: ast.Expr) -> ir.Expression:
        """The typed form of an expression. Raises Rejected."""
        handler: Callable[[Any, Any], ir.Expression] = _HANDLERS[type(expression)]
        with self._scope.extent.node(expression.span):
            return handler(self, expression)

    def value(self, expression: ast.Expr) -> ir.Expression:
        """The typed form of an expression, with an array of the process replaced by its address. Raises Rejected."""
        return operands.decayed(self.check(expression))

    def condition(self, expression: ast.Expr, tag: Tag, what: str) -> ir.Expression:
        found = self.value(expression)
        if not is_scalar(found.type):
            raise Rejected(tag, expression.span, f"{what} must be of scalar type")
        return found

    # Leaves.

    def _number(self, number: ast.Number) -> ir.Expression:
        types = _BY_SUFFIX.get(number.suffix, (ULONG,))
        if number.suffix == "char" or (not number.suffix and number.decimal):
            types = (INT, LONG, ULONG)
        return ir.Constant(next((t for t in types if constants.holds(t, number.value)), ULONG), number.value)

    def _text(self, literal: ast.Text) -> ir.Expression:
        return ir.Literal(literal.value)

    def _name(self, name: ast.Name) -> ir.Expression:
        if name.name in self._scope.parameters:
            return self._scope.parameters[name.name]
        variable = self._scope.variable("global", name.name)
        if variable is not None:
            return self._places.of(variable, name.span)
        if name.name in self._scope.inlines:
            return self.inlines.named(self._scope.inlines[name.name], name.span)
        if name.name in self._scope.enumerators:
            return constants.integer(self._scope.enumerators[name.name])
        if name.name in OF_THE_KERNEL:
            return self._of_the_kernel(name)
        if isinstance(BUILTINS.get(name.name), Array):
            raise Rejected(Tag.D_OP_DYN, name.span, f"an array is used without an index: {name.name}")
        if name.name in BUILTINS:
            self._scope.stacks |= name.name in OF_STACKS
            return self._depth(name) if name.name in DEPTHS else builtin(name.name)
        if name.name == "NULL":
            return ir.Constant(Pointer(VOID), 0)
        if name.name in CONSTANTS:
            return constants.integer(CONSTANTS[name.name])
        if name.name == "args":
            raise Rejected(Tag.D_IDENT_BADREF, name.span, "array 'args' may not be referenced as scalar")
        raise Rejected(Tag.D_IDENT_UNDEF, name.span, f"failed to resolve {name.name}: Unknown variable name")

    def _depth(self, name: ast.Name) -> ir.Expression:
        """The depth of a stack, which has no more frames than the option maxframes says."""
        depth, most = builtin(name.name), self._scope.frames.most
        place = self.declarations.own(name.name, depth.type, name.span)
        below = ir.Binary(INT, "<", ir.Assign(depth.type, place, "", depth), ir.Constant(depth.type, most))
        return ir.Conditional(depth.type, below, place, ir.Constant(depth.type, most))

    def _variable(self, variable: ast.Variable) -> ir.Expression:
        return self._places.named(variable)

    def _of_the_kernel(self, name: ast.Name) -> ir.Expression:
        world, tag = self._scope.world, OF_THE_KERNEL[name.name]
        if not world.in_kernel:
            raise Rejected(Tag.D_KERNEL, name.span, f"{name.name} is about the kernel, where no clause runs")
        return ir.Call(Pointer(world.type("", "struct", tag) or VOID), name.name)

    def _symbol(self, symbol: ast.Symbol) -> ir.Expression:
        if self.locals.means(symbol):
            return self.locals.variable(symbol)
        found, address = self._known_symbol(symbol)
        if found.code:
            return ir.Convert(Pointer(VOID), address)
        if found.type is None:
            what = f"no symbolic type information is available for {symbol.module}`{symbol.name}"
            raise Rejected(Tag.D_SYM_NOTYPES, symbol.span, what)
        return operands.at(self.declarations.complete(found.type), address)

    def _known_symbol(self, symbol: ast.Symbol) -> tuple[Symbol, ir.Expression]:
        """The symbol, and its address, which may depend on the processor. Raises Rejected."""
        found = self._scope.world.symbol(symbol.module, symbol.name)
        if found is None:
            what = f"failed to resolve {symbol.module}`{symbol.name}: Unknown symbol name"
            raise Rejected(Tag.D_IDENT_UNDEF, symbol.span, what)
        address: ir.Expression = ir.Constant(UINT64, found.address)
        if found.by_processor:
            address = ir.Binary(UINT64, "+", ir.Call(UINT64, "by_processor"), address)
        return found, address

    def _aggregate(self, aggregate: ast.Aggregate) -> ir.Expression:
        return ir.Call(DYNAMIC, f"@{aggregate.name}")

    # Operators.

    def _unary(self, expression: ast.Unary) -> ir.Expression:
        if expression.op in ("++", "--"):
            return self._places.step(expression.operand, 1 if expression.op == "++" else -1, before=True)
        if expression.op == "*":
            return self._dereference(expression)
        if expression.op == "&":
            return self._address(expression)
        return operands.unary(expression.op, self.value(expression.operand), expression.span)

    def _postfix(self, expression: ast.Postfix) -> ir.Expression:
        return self._places.step(expression.operand, 1 if expression.op == "++" else -1, before=False)

    def _dereference(self, expression: ast.Unary) -> ir.Expression:
        return self._at(operands.placed(self.check(expression.operand)), expression)

    def _at(self, pointer: ir.Expression, expression: ast.Expr) -> ir.Expression:
        if isinstance(pointer, ir.Xlate) and pointer.type.pointer:
            return without_pointer(pointer)
        if not isinstance(pointer.type, Pointer):
            raise Rejected(Tag.D_DEREF_NONPTR, expression.span, "cannot dereference non-pointer type")
        if isinstance(pointer.type.to, Void):
            raise Rejected(Tag.D_DEREF_VOID, expression.span, "cannot dereference pointer to void")
        return operands.at(self.declarations.complete(pointer.type.to), constants.convert(UINT64, pointer))

    def _address(self, expression: ast.Unary) -> ir.Expression:
        if isinstance(expression.operand, ast.Symbol) and not self.locals.means(expression.operand):
            found, address = self._known_symbol(expression.operand)
            if found.type is None and not found.code:
                return ir.Convert(Pointer(VOID), address)  # all that is known of it
        operand = self.check(expression.operand)
        if isinstance(operand, ir.Field) and not operand.bits:
            return constants.convert(Pointer(operand.type), operand.address)
        if operand.type == DYNAMIC:
            raise Rejected(Tag.D_ADDROF_VAR, expression.span, "cannot take address of dynamic variable")
        if isinstance(operand, ir.Part | ir.Field) and operand.bits:
            raise Rejected(Tag.D_ADDROF_BITFIELD, expression.span, "cannot take address of bit-field")
        if isinstance(operand, ir.Part) and operands.is_placed(operand):
            return ir.Address(Pointer(operand.type), operand)
        if isinstance(operand, ir.Place | ir.Keyed | ir.Part) or is_builtin(operand):
            raise Rejected(Tag.D_ADDROF_VAR, expression.span, "cannot take address of dynamic variable")
        raise Rejected(Tag.D_ADDROF_LVAL, expression.span, "unacceptable operand for unary & operator")

    def _binary(self, expression: ast.Binary) -> ir.Expression:
        given = [self.declarations.stepping(self.value(each)) for each in (expression.left, expression.right)]
        left, right = (operands.pointing(one, two.type) for one, two in zip(given, reversed(given), strict=True))
        if expression.op in ("/", "%") and constants.truth(right) is False and _is_number(expression):
            raise Rejected(Tag.D_DIV_ZERO, expression.span, "expression contains division by zero")
        return operands.binary(expression.op, left, right, expression.span, self._scope.strsize)

    def _assign(self, expression: ast.Assign) -> ir.Expression:
        return self._places.assign(expression)

    def _conditional(self, expression: ast.Conditional) -> ir.Expression:
        test = self.condition(expression.test, Tag.D_OP_SCALAR, "operator ?: expression")
        known = constants.truth(test)
        if known is not None:
            return self.value(expression.yes if known else expression.no)
        yes, no = self.value(expression.yes), self.value(expression.no)
        if any(is_of_another_context(each) and isinstance(each.type, Void) for each in (yes, no)):
            raise Rejected(Tag.D_OP_ACT, expression.span, "action cannot be used in a conditional context")
        if is_arithmetic(yes.type) and is_arithmetic(no.type):
            type_ = ranked(yes.type, no.type)
            return ir.Conditional(type_, test, constants.convert(type_, yes), constants.convert(type_, no))
        if isinstance(yes.type, String) or isinstance(no.type, String):
            if operands.is_assignable(STRING, yes.type) and operands.is_assignable(STRING, no.type):
                span = expression.span
                return ir.Conditional(STRING, test, operands.as_string(yes, span), operands.as_string(no, span))
        elif is_scalar(yes.type) and is_scalar(no.type):
            pointer = yes.type if isinstance(yes.type, Pointer) else no.type
            return ir.Conditional(pointer, test, constants.convert(pointer, yes), constants.convert(pointer, no))
        raise Rejected(Tag.D_OP_INCOMPAT, expression.span, "operator ?: operands must have compatible types")

    def _comma(self, expression: ast.Comma) -> ir.Expression:
        left, right = self.check(expression.left), self.value(expression.right)
        return ir.Comma(right.type, left, right)

    # Elements and members.

    def _index(self, expression: ast.Index) -> ir.Expression:
        base = expression.base
        if isinstance(base, ast.Aggregate):
            raise multidimensional(base, expression.span)
        if isinstance(base, ast.Name) and self._scope.has_parameters(base.name):
            return self.inlines.indexed(base.name, expression)
        return self._places.index(expression, self._at)

    def _member(self, expression: ast.Member) -> ir.Expression:
        base = self.check(expression.base)
        if expression.arrow:
            base = self._through(base, expression)
        if isinstance(base, ir.Xlate) and not base.type.pointer:
            return self.translators.member(base, expression.name, expression.span)
        type_ = self.declarations.complete(base.type)
        if not isinstance(type_, Record):
            if expression.arrow:
                what = (
                    f'operator -> cannot be applied to pointer to type "{text(type_)}"; must be applied to a struct or '
                )
                raise Rejected(Tag.D_OP_SOU, expression.span, f"{what}union pointer")
            what = f'operator . cannot be applied to type "{text(type_)}"; must be applied to a struct or union'
            raise Rejected(Tag.D_OP_SOU, expression.span, what)
        if not type_.complete:
            operator = "->" if expression.arrow else "."
            what = f"operator {operator} cannot be applied to a forward declaration: no {text(type_)} definition "
            what += "is available"
            raise Rejected(Tag.D_OP_INCOMPLETE, expression.span, what)
        member = type_.member(expression.name)
        if member is None:
            raise Rejected(Tag.D_TYPE_MEMBER, expression.span, f"{expression.name} is not a member of {text(type_)}")
        return self._places.member(base, member)

    def _through(self, base: ir.Expression, expression: ast.Member) -> ir.Expression:
        pointer = operands.decayed(base)
        if isinstance(pointer, ir.Xlate) and pointer.type.pointer:
            return without_pointer(pointer)
        if not isinstance(pointer.type, Pointer):
            raise Rejected(Tag.D_OP_PTR, expression.span, "operator -> must be applied to a pointer")
        return self._at(pointer, expression)

    # Types.

    def _cast(self, expression: ast.Cast) -> ir.Expression:
        type_, value = self.declarations.type_name(expression.type), self.check(expression.operand)
        value = operands.placed(value) if isinstance(type_, Pointer) else operands.decayed(value)
        if isinstance(type_, String):
            return operands.as_string(value, expression.span, "cast")
        if isinstance(type_, Void):
            return ir.Convert(type_, value)
        if isinstance(type_, Record) and type_ == value.type:
            return value
        if not is_scalar(type_) or not is_scalar(value.type):
            given = text(value.type)
            if isinstance(value.type, Translated):
                given = "pointer to translated data" if value.type.pointer else "translated data"
            what = f'invalid cast expression: "{given}" to "{text(type_)}"'
            raise Rejected(Tag.D_CAST_INVAL, expression.span, what)
        return constants.convert(type_, constants.cut(value))

    def _sizeof_type(self, expression: ast.SizeofType) -> ir.Expression:
        return self._size(expression, self.declarations.complete(self.declarations.type_name(expression.type)))

    def _sizeof(self, expression: ast.Sizeof) -> ir.Expression:
        operand = expression.operand
        if isinstance(operand, ast.Name) and self._scope.variable("global", operand.name) is None:
            known = None if self._is_expression(operand.name) else self.declarations.known(operand.name)
            if known is not None:
                return self._size(expression, known)
        variable = self._scope.variable("global", operand.name) if isinstance(operand, ast.Name) else None
        if variable is not None and variable.keys is not None:
            what = f"associative array '{variable.name}' may not be referenced as scalar"
            raise Rejected(Tag.D_IDENT_BADREF, operand.span, what)
        if isinstance(operand, ast.Symbol):
            known = self.declarations.known(f"{operand.module}`{operand.name}")
            if known is not None:
                return self._size(expression, known)
        if isinstance(operand, ast.Text):
            return ir.Constant(ULONG, len(operand.value.encode("utf-8", "surrogateescape")) + 1)
        if isinstance(operand, ast.Name) and operand.name == "NULL":
            return self._size(expression, INT)  # in DTrace it is an inline of 0
        found = self.check(operand)
        if isinstance(found, ir.Part | ir.Field) and found.bits:
            raise Rejected(Tag.D_SIZEOF_BITFIELD, expression.span, "cannot apply sizeof to a bit-field")
        return self._size(expression, found.type)

    def _is_expression(self, name: str) -> bool:
        scope = self._scope
        known = name in scope.parameters or name in scope.inlines or name in scope.enumerators
        return known or name in BUILTINS or name in CONSTANTS

    def _size(self, expression: ast.Expr, type_: Any) -> ir.Expression:
        if isinstance(type_, Translated):
            type_ = Pointer(type_.record) if type_.pointer else type_.record
        if isinstance(type_, Void | Dynamic | Special) or (isinstance(type_, Record) and not type_.complete):
            raise Rejected(Tag.D_SIZEOF_TYPE, expression.span, "cannot apply sizeof to an operand of unknown size")
        nul = isinstance(type_, String)  # DTrace does not count it
        return ir.Constant(ULONG, self._scope.size(type_) - nul)

    def _stringof(self, expression: ast.Stringof) -> ir.Expression:
        return operands.as_string(self.check(expression.operand), expression.span)

    def _offsetof(self, expression: ast.Offsetof) -> ir.Expression:
        with only_types(expression.type.base):
            type_ = self.declarations.complete(self.declarations.type_name(expression.type))
        member = type_.member(expression.member) if isinstance(type_, Record) else None
        if member is not None and member.bits:
            what = f"cannot take offset of a bit-field: {expression.member}"
            raise Rejected(Tag.D_OFFSETOF_BITFIELD, expression.span, what)
        if not isinstance(type_, Record) or not type_.complete:
            raise Rejected(Tag.D_OFFSETOF_TYPE, expression.span, "offsetof operand must be a struct or union type")
        if member is None:
            what = f"failed to determine offset of {expression.member}: Member name not found"
            raise Rejected(Tag.D_UNKNOWN, expression.span, what)
        return ir.Constant(ULONG, member.offset)

    def _xlate(self, expression: ast.Xlate) -> ir.Expression:
        return self.translators.xlate(expression)

    def _call(self, expression: ast.Call) -> ir.Expression:
        return self.calls.subroutine(expression)


def _is_number(expression: ast.Expr) -> bool:
    """Whether the expression consists of numbers only, so that DTrace's parser computes it; names have values only at
    the probe.
    """
    match expression:
        case ast.Number():
            return True
        case ast.Unary(operand=operand):
            return _is_number(operand)
        case ast.Binary(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


_HANDLERS: dict[type, Callable[[Expressions, Any], ir.Expression]] = {
    ast.Number: Expressions._number,
    ast.Text: Expressions._text,
    ast.Name: Expressions._name,
    ast.Variable: Expressions._variable,
    ast.Symbol: Expressions._symbol,
    ast.Aggregate: Expressions._aggregate,
    ast.Unary: Expressions._unary,
    ast.Postfix: Expressions._postfix,
    ast.Binary: Expressions._binary,
    ast.Assign: Expressions._assign,
    ast.Conditional: Expressions._conditional,
    ast.Comma: Expressions._comma,
    ast.Call: Expressions._call,
    ast.Index: Expressions._index,
    ast.Member: Expressions._member,
    ast.Cast: Expressions._cast,
    ast.SizeofType: Expressions._sizeof_type,
    ast.Sizeof: Expressions._sizeof,
    ast.Stringof: Expressions._stringof,
    ast.Offsetof: Expressions._offsetof,
    ast.Xlate: Expressions._xlate,
}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Actions: the data that each puts into the record of its clause, and what the consumer is to do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gilk.lang import ir
from gilk.lang.d import ast
from gilk.lang.d.meaning import constants, operands, typed
from gilk.lang.d.meaning.calls import fit, mismatch
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.functions import OF_THE_KERNEL, Role
from gilk.lang.d.meaning.layout import Layout
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.printf import NOWHERE, PrintfTag, parse_format
from gilk.lang.d.printf_check import (
    ArgumentKind,
    Category,
    check,
    check_joined,
    check_printa,
    of_aggregation,
    undefined_aggregation,
)
from gilk.lang.data import PACKET_HEAD, Aggregation, Datum, Kind
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import (
    DYNAMIC,
    INT,
    INT64,
    UINT64,
    VOID,
    Array,
    Dynamic,
    Enumeration,
    Float,
    Integer,
    Pointer,
    Record,
    Special,
    String,
    Translated,
    Type,
    Void,
    is_scalar,
    text,
)

_LARGEST = 16384  # the bytes that tracemem() can record
_Arguments: TypeAlias = Sequence[typed.Argument]
AGGREGATION = ArgumentKind(Category.AGGREGATION, "aggregation")
_USER_SYMBOLS = (Special.USYM, Special.UMOD, Special.UADDR)


class Actions:
    """The compiler of actions. ``layout`` is that of the current record; see begin()."""

    def __init__(self, scope: Scope, declarations: Declarations) -> None:
        self._scope = scope
        self._declarations = declarations
        self.layout = Layout(scope.strsize)

    def begin(self) -> None:
        """Begin a new record."""
        self.layout = Layout(self._scope.strsize)

    def statement(self, action: typed.Action) -> ir.Statement:
        """The statement for an action. Raises Rejected."""
        call = action.call
        if call.name in OF_THE_KERNEL and (action.known.role is Role.DEED or not self._scope.world.in_kernel):
            raise Rejected(Tag.D_KERNEL, call.span, f"{call.name}( ) is about the kernel, where no clause runs")
        if action.known.role is Role.DEED:
            return ir.Act(call.name, tuple(map(_valued, action.arguments)))
        special = _SPECIAL.get(call.name)
        if special is not None:
            return special(self, call, action.arguments)
        assert isinstance(action.known.type, Special)
        value = _valued(action.arguments[0])
        return ir.Data(call.name, (self.layout.add(value, call.span),), (value,))

    # Actions with a format.

    def _format(self, call: ast.Call, given: _Arguments) -> str:
        if not isinstance(call.arguments[0], ast.Text):
            first = given[0]
            argument = DYNAMIC if isinstance(first, ast.Aggregate) else first.type
            wrong = mismatch(call, 1, "string constant", text(argument))
            raise Rejected(PrintfTag.ARG_FMT, call.span, wrong.diagnostic.message)
        return call.arguments[0].value

    def _printf(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        format_ = self._format(call, given)
        if (call.name, format_) == ("freopen", "."):
            raise Rejected(Tag.D_FREOPEN_INVALID, call.span, 'freopen( ) argument #1 cannot be "."')
        kinds = [
            AGGREGATION if isinstance(each, ast.Aggregate) else kind_of(self._printable(each).type) for each in given
        ]
        check(parse_format(format_, call.span), kinds[1:], function=call.name, span=call.span)
        values = tuple(self._printable(_valued(argument)) for argument in given[1:])
        data = tuple(self.layout.add(v, a.span) for v, a in zip(values, call.arguments[1:], strict=True))
        return ir.Data(call.name, data, values, format_)

    def _printable(self, value: ir.Expression) -> ir.Expression:
        if operands.holds_text(value):
            return operands.as_string(value, NOWHERE)
        if operands.is_null(value) and value.type == Pointer(VOID):
            return constants.integer(0)  # NULL is an inline of 0 in DTrace
        return operands.decayed(value)

    def _printa(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        formatted = bool(call.arguments) and isinstance(call.arguments[0], ast.Text)
        rest = given[formatted:]
        check_printa([self._kind(argument) for argument in rest], formatted, call.span)
        found = [self._aggregation(argument) for argument in rest]
        keys = [[_key_kind(key) for key in each.keys] for each in found]
        for each, its in zip(found[1:], keys[1:], strict=True):
            check_joined(found[0].name, keys[0], each.name, its, call.span)
        format_ = self._format(call, given) if formatted else None
        if format_ is not None:
            pieces = parse_format(format_, call.span)
            kind = of_aggregation(found[0].what.function)
            check(pieces, keys[0], function="printa", aggregation=kind, span=call.span)
        return ir.Data("printa", text=format_, aggregations=tuple(each.name for each in found))

    def _kind(self, argument: typed.Argument) -> ArgumentKind:
        if isinstance(argument, ast.Aggregate):
            return AGGREGATION
        return kind_of(argument.type)

    # Actions about aggregations.

    def _aggregation(self, argument: typed.Argument) -> Aggregation:
        assert isinstance(argument, ast.Aggregate)
        found = self._scope.aggregations.get(argument.name)
        if found is None:
            raise undefined_aggregation(argument.name, argument.span)
        return found

    def _about(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        first = given[0]
        if not isinstance(first, ast.Aggregate):
            wrong = mismatch(call, 1, "aggregation", text(first.type))
            raise Rejected(_AGGARG[call.name], call.span, str(wrong))
        if first.name not in self._scope.aggregations:
            raise Rejected(_AGGBAD[call.name], call.span, f"undefined aggregation: @{first.name}")
        name = self._aggregation(first).name
        values = tuple(constants.convert(INT64, _valued(value)) for value in given[1:])
        data = tuple(self.layout.add(value, call.span) for value in values)
        return ir.Data(call.name, data, values, aggregations=(name,))

    # Actions that record single values.

    def _trace(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        value = given[0]
        if isinstance(value, ast.Aggregate) or isinstance(value.type, Dynamic | Translated):
            raise Rejected(Tag.D_TRACE_DYN, call.span, "trace( ) may not be applied to a dynamic expression")
        if isinstance(value.type, Void):
            raise Rejected(Tag.D_TRACE_VOID, call.span, "trace( ) may not be applied to a void expression")
        if not isinstance(value, ir.Field):
            value = self._printable(value)
        return ir.Data("trace", (self.layout.add(value, call.span),), (value,))

    def _print(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        """print(): record the address, and the memory at the address."""
        first = _valued(given[0])
        pointer = operands.decayed(first)
        if not isinstance(pointer.type, Pointer) or isinstance(pointer.type.to, Void):
            raise mismatch(call, 1, "pointer", text(pointer.type))
        shown = first.type if isinstance(first.type, Array) else self._declarations.complete(pointer.type.to)
        if (isinstance(shown, Record) and not shown.complete) or not self._scope.size(shown):
            what = f"print( ) argument #1 reference has type '{text(shown)}' with size 0; cannot print( ) it."
            raise Rejected(Tag.D_PRINT_SIZE, call.span, what)
        place = self._declarations.own("print", UINT64, call.span)
        start = ir.Assign(UINT64, place, "", constants.convert(UINT64, pointer))
        size = min(self._scope.size(shown), _LARGEST)
        whole = ir.Field(Array(Integer("char", 1, True, 0), size), place)
        data = (self.layout.add(start, call.span), self.layout.add(whole, call.span))
        return ir.Data("print", data, (start, whole), shown=shown)

    def _tracemem(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        address, size = operands.decayed(_valued(given[0])), given[1]
        if not is_scalar(address.type):
            wrong = mismatch(call, 1, "pointer or integer", text(address.type))
            raise Rejected(Tag.D_TRACEMEM_ADDR, call.span, str(wrong))
        if not isinstance(size, ir.Constant) or size.value <= 0:
            what = "tracemem( ) argument #2 must be a non-zero positive integral constant expression"
            raise Rejected(Tag.D_TRACEMEM_SIZE, call.span, what)
        if size.value > _LARGEST:
            raise Rejected(Tag.D_TRACEMEM_SIZE, call.span, f"tracemem( ) argument #2 must be from 1 to {_LARGEST}")
        whole = ir.Field(Array(Integer("char", 1, True, 0), size.value), constants.convert(UINT64, address))
        values = (whole, *(constants.convert(INT64, _valued(shown)) for shown in given[2:]))
        return ir.Data("tracemem", tuple(self.layout.add(value, call.span) for value in values), values)

    def _pcap(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        """pcap(): record the time, the kind of the packet's outermost header, and the packet with its length."""
        packet, kind = fit(call, 1, "ptr", _valued(given[0])), fit(call, 2, "int", _valued(given[1]))
        taken = Array(Integer("char", 1, True, 0), PACKET_HEAD + self._scope.pcapsize)
        values = (ir.Call(UINT64, "walltimestamp"), constants.convert(INT, kind), ir.Call(taken, "packet", (packet,)))
        return ir.Data("pcap", tuple(self.layout.add(value, call.span) for value in values), values)

    def _exit(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        status = constants.convert(INT, fit(call, 1, "int", _valued(given[0])))
        return ir.Data("exit", (self.layout.add(status, call.span),), (status,))

    def _setopt(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        words: list[str] = []
        for number, (each, value) in enumerate(zip(call.arguments, given, strict=True), 1):
            if not isinstance(each, ast.Text):
                raise mismatch(call, number, "char *", text(_valued(value).type))
            words.append(each.value)
        return ir.Data("setopt", text="=".join(words))

    def _ftruncate(self, call: ast.Call, given: _Arguments) -> ir.Statement:
        return ir.Data("ftruncate")


_SPECIAL: dict[str, Callable[[Actions, ast.Call, _Arguments], ir.Statement]] = {
    "printf": Actions._printf,
    "system": Actions._printf,
    "freopen": Actions._printf,
    "printa": Actions._printa,
    **dict.fromkeys(("clear", "trunc", "normalize", "denormalize"), Actions._about),
    "trace": Actions._trace,
    "print": Actions._print,
    "tracemem": Actions._tracemem,
    "pcap": Actions._pcap,
    "exit": Actions._exit,
    "setopt": Actions._setopt,
    "ftruncate": Actions._ftruncate,
}
_AGGBAD = {
    "clear": Tag.D_CLEAR_AGGBAD,
    "trunc": Tag.D_TRUNC_AGGBAD,
    "normalize": Tag.D_NORMALIZE_AGGBAD,
    "denormalize": Tag.D_NORMALIZE_AGGBAD,
}
_AGGARG = {
    "clear": Tag.D_CLEAR_AGGARG,
    "trunc": Tag.D_TRUNC_AGGARG,
    "normalize": Tag.D_NORMALIZE_AGGARG,
    "denormalize": Tag.D_NORMALIZE_AGGARG,
}


def _valued(argument: typed.Argument) -> ir.Expression:
    return ir.Call(DYNAMIC, f"@{argument.name}") if isinstance(argument, ast.Aggregate) else argument


def kind_of(type_: Type) -> ArgumentKind:
    """The kind of an argument of that type, as formats see it."""
    name = text(type_)
    match type_:
        case Integer():
            return ArgumentKind(Category.INTEGER, name, type_.size, type_.signed)
        case Enumeration():
            return ArgumentKind(Category.INTEGER, name, 4, True)
        case Float():
            return ArgumentKind(Category.FLOAT, name, type_.size)
        case String():
            return ArgumentKind(Category.STRING, name)
        case Pointer():
            return ArgumentKind(Category.POINTER, name, 8, False)
        case Special.USTACK | Special.STACK:
            return ArgumentKind(Category.STACK, name)
        case Special():
            return ArgumentKind(Category.USER_SYMBOL if type_ in _USER_SYMBOLS else Category.SYMBOL, name)
    return ArgumentKind(Category.OTHER, name)


def _integer(key: Datum) -> str:
    """The name of a type of D's with the values of ``key``."""
    return "int" if (key.size, key.signed) == (4, True) else f"{'' if key.signed else 'u'}int{8 * key.size}_t"


def _key_kind(key: Datum) -> ArgumentKind:
    match key.kind:
        case Kind.INT:
            category = Category.POINTER if key.pointer else Category.INTEGER
            return ArgumentKind(category, "pointer" if key.pointer else _integer(key), key.size, key.signed)
        case Kind.STRING:
            return ArgumentKind(Category.STRING, "string")
        case Kind.USTACK | Kind.STACK:
            return ArgumentKind(Category.STACK, "stack")
        case Kind.USYM | Kind.UMOD | Kind.UADDR:
            return ArgumentKind(Category.USER_SYMBOL, str(key.kind))
        case Kind.SYM | Kind.MOD:
            return ArgumentKind(Category.SYMBOL, str(key.kind))
    return ArgumentKind(Category.OTHER, "bytes")

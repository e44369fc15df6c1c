# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of data in the frame: strings, which are padded with zeros, keys of variables, and recorded values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeGuard

from gilk.lang import ir
from gilk.lang.data import Datum, Kind
from gilk.lang.to_kernel import strings
from gilk.lang.to_kernel.code import WORD, Label, Slot
from gilk.lang.to_kernel.printing import GLOBALS_START, Printing, Room
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import Array, String

Emit = Callable[[Printing, ir.Expression], None]
_PROBE_TEXTS = ("probeprov", "probemod", "probefunc", "probename")
_SELF = 0x80000000  # a bit in the number of a variable: every thread has its own; GD_SELF, native/abi/gilk_d.h
_COMM = 16  # bytes of a task's name
_FAULT_ADDRESS = 1  # enum gd_fault, native/abi/gilk_d.h


def is_null(node: ir.Expression) -> bool:
    return isinstance(node, ir.Constant) and isinstance(node.type, String)


def longest(p: Printing, node: ir.Expression) -> int:
    """The bytes that the string takes at most, with its NUL, in whole words."""
    match node:
        case ir.Literal(value=value):
            size = len(_encoded(value)) + 1
        case ir.Call(name="execname"):
            size = _COMM
        case ir.Call(name=name) if name in _PROBE_TEXTS:
            size = p.longest[_PROBE_TEXTS.index(name)]
        case ir.Conditional(yes=yes, no=no):
            size = max(longest(p, yes), longest(p, no))
        case ir.Let(body=part) | ir.Comma(right=part):
            size = longest(p, part)
        case ir.Bound(number=number) if number in p.bound:
            size = p.bound[number].size
        case _:
            size = p.strsize
    return min(size + 7 & -8, p.strsize)


def text(p: Printing, node: ir.Expression, at: int, size: int, value: Emit) -> None:
    """Print code that puts the string into ``size`` bytes of the frame from ``at`` on. Raises NotInKernel."""
    match node:
        case ir.Literal(value=literal):
            data = _encoded(literal)[: min(size, p.strsize) - 1]
            p.code.call("constant", p.texts.place(data), len(data), at, size)
        case ir.Call():
            _called(p, node, at, size, value)
        case ir.Convert(operand=operand) if (taken := _taken(operand)) is not None:
            _take(p, taken, at, size, value)
        case ir.Convert(operand=operand) if not isinstance(operand.type, String | Array):
            _copyin(p, (operand, None), at, size, value)
        case ir.Conditional():
            _either(p, node, at, size, value)
        case ir.Place() if not p.nulls.is_marked(node):
            _variable(p, node, at, size)
        case ir.Keyed():
            _some(p, node, at, size, value)
        case ir.Let():
            with binding(p, node, value):
                text(p, node.body, at, size, value)
        case ir.Bound(number=number):
            _copy(p, p.bound[number].at, p.bound[number].size, at, size)
        case ir.Comma(left=left, right=right):
            value(p, left)
            text(p, right, at, size, value)
        case _:
            raise NotInKernel("a string of this kind")


def _called(p: Printing, node: ir.Call, at: int, size: int, value: Emit) -> None:
    match node:
        case ir.Call(name="execname"):
            p.code.call("execname", at, size)
        case ir.Call(name=name) if name in _PROBE_TEXTS:
            p.code.call("probe_text", _PROBE_TEXTS.index(name), at, size)
        case ir.Call(name="copyinstr", arguments=(address, *most)):
            _copyin(p, (address, most[0] if most else None), at, size, value)
        case ir.Call(name=name) if name in strings.FOUND:
            _some(p, node, at, size, value)
        case ir.Call(name=name) if name in strings.MADE:
            with p.frame.room(p.strsize) as made:
                strings.make(p, node, made, value, text)
                p.fails()
                _copy(p, made, p.strsize, at, size)
        case ir.Call(name=name):
            raise NotInKernel(f"{name}()")


def _copy(p: Printing, source: int, length: int, at: int, size: int) -> None:
    """Print code that copies a string within the frame, and pads it with zeros."""
    p.code.call("copy", source, at, min(length, size))
    if length < size:
        p.code.call("zero", at + length, size - length)


@contextmanager
def binding(p: Printing, node: ir.Let, value: Emit) -> Iterator[None]:
    """Print code that computes the bindings of a Let, one after the other, and keep their values in the frame during
    the block.
    """
    outer = p.bound
    with ExitStack() as rooms:
        for number, given in node.bindings:
            is_text = isinstance(given.type, String)
            if is_text and p.nulls.may_be(given):
                raise NotInKernel("a string that may be NULL, of an inline or a translator")
            size = longest(p, given) if is_text else WORD
            room = Room(rooms.enter_context(p.frame.room(size)), size)
            if is_text:
                text(p, given, room.at, size, value)
            else:
                value(p, given)
                p.code.keep(room.at)
            p.bound = {**p.bound, number: room}
        yield
        p.bound = outer


def _look(p: Printing, node: ir.Keyed | ir.Call, at: int, size: int, value: Emit) -> None:
    """Print code that puts a string, if it exists, into the frame; rax is 1 if it does, otherwise 0."""
    if isinstance(node, ir.Keyed):
        load_keyed(p, node, at, size, value)
    else:
        strings.make(p, node, at, value, text)
    p.code.emit("extend u8")


def _is_looked_at(node: ir.Expression) -> TypeGuard[ir.Keyed | ir.Call]:
    return isinstance(node, ir.Keyed) or (isinstance(node, ir.Call) and node.name in strings.FOUND)


def present(p: Printing, node: ir.Expression, value: Emit) -> None:
    """Print code after which rax is 0 if the string is NULL, otherwise 1. Raises NotInKernel."""
    if is_null(node):
        p.code.constant(0)
        return
    with p.frame.room(p.strsize) as at:
        if _is_looked_at(node):
            _look(p, node, at, p.strsize, value)
            return
        if p.nulls.may_be(node):
            raise NotInKernel("a string that may be NULL")
        text(p, node, at, p.strsize, value)
        p.code.constant(1)


def _encoded(literal: str) -> bytes:
    return literal.encode("utf-8", "surrogateescape").split(b"\0")[0]


def _copyin(
    p: Printing, given: tuple[ir.Expression, ir.Expression | None], at: int, size: int, value: Emit
) -> None:  # fmt: skip
    """Print code that copies a string from memory that may not be there; ``given``: the address, and the most bytes to
    take, or None.
    """
    address, most = given
    if most is not None and not isinstance(most, ir.Constant):
        raise NotInKernel("copyinstr() of a size that is computed")
    bound = size if most is None else max(min(size, most.value), 0)
    value(p, address)
    with p.frame.room() as kept:
        p.code.keep(kept)
        p.code.call("copyin_string", at, Slot(kept), bound, size)
        p.fails()


def _taken(node: ir.Expression) -> ir.Call | None:
    """The call of copyin() whose result ``node`` is, or None."""
    while isinstance(node, ir.Convert):
        node = node.operand
    return node if isinstance(node, ir.Call) and node.name == "copyin" else None


def _take(p: Printing, node: ir.Call, at: int, size: int, value: Emit) -> None:
    """Print code that copies the bytes of a copyin() as a string, up to a NUL if there is one among them."""
    with p.frame.room() as address, p.frame.room() as length:
        for place, given in zip((address, length), node.arguments, strict=True):
            value(p, given)
            p.code.keep(place)
        p.code.call("copyin_text", at, Slot(address), Slot(length), size)
        p.fails()


def copyin(p: Printing, node: ir.Call, value: Emit) -> None:
    """Print code after which rax is the address itself, if memory is there. The memory is read only where the address
    is used.
    """
    with p.frame.room() as address, p.frame.room() as length:
        for place, given in zip((address, length), node.arguments, strict=True):
            value(p, given)
            p.code.keep(place)
        p.code.call("present", Slot(address), Slot(length))
        p.fails()
        p.code.recall(address)


def _either(p: Printing, node: ir.Conditional, at: int, size: int, value: Emit) -> None:
    no, done = Label(), Label()
    value(p, node.test)
    p.code.emit("test rax")
    p.code.branch("jz", no)
    text(p, node.yes, at, size, value)
    p.code.branch("jmp", done)
    p.code.place(no)
    text(p, node.no, at, size, value)
    p.code.place(done)


def _variable(p: Printing, node: ir.Place, at: int, size: int) -> None:
    if node.scope == "this":
        _copy(p, p.this + node.offset, p.strsize, at, size)
        return
    taken = min(size, p.strsize)
    p.code.call("load_global", GLOBALS_START + node.offset, at, taken)
    if taken < size:
        p.code.call("zero", at + taken, size - taken)


def _some(p: Printing, node: ir.Keyed | ir.Call, at: int, size: int, value: Emit) -> None:
    """Print code for a string that may not exist; it is then NULL, and reading it is a fault."""
    fine = Label()
    with p.frame.room(p.strsize) as found:
        _look(p, node, found, p.strsize, value)
        p.code.emit("test eax")
        p.code.branch("jnz", fine)
        p.code.call("fail", _FAULT_ADDRESS, 0)
        p.code.branch("jmp", p.fault)
        p.code.place(fine)
        _copy(p, found, p.strsize, at, size)


def compare(p: Printing, node: ir.Binary, value: Emit) -> None:
    """Print code after which rax is below, equal to or above 0 as the left string is below, equal to or above the right
    one. NULL is below all other strings.
    """
    sides = (node.left, node.right)
    sizes = [longest(p, side) for side in sides]
    with p.frame.room(sizes[0]) as left, p.frame.room(sizes[1]) as right:
        if any(map(p.nulls.may_be, sides)):
            _compare_some(p, node, (left, right), value)
            return
        text(p, node.left, left, sizes[0], value)
        text(p, node.right, right, sizes[1], value)
        p.code.call("compare", left, sizes[0], right, sizes[1])


def _compare_some(p: Printing, node: ir.Binary, at: tuple[int, int], value: Emit) -> None:
    """Print the comparison of strings either of which may be NULL."""
    absent, done = Label(), Label()
    with p.frame.room() as left, p.frame.room() as right:
        for side, to, mark in ((node.left, at[0], left), (node.right, at[1], right)):
            _optional(p, side, to, value)
            p.code.keep(mark)
        p.code.emit("mov rcx, rax")
        p.code.recall(left)
        p.code.emit("and rax, rcx")
        p.code.emit("test rax")
        p.code.branch("jz", absent)
        p.code.call("compare", at[0], longest(p, node.left), at[1], longest(p, node.right))
        p.code.branch("jmp", done)
        p.code.place(absent)
        p.code.emit("mov rcx, frame", right)
        p.code.recall(left)
        p.code.emit("sub rax, rcx")
        p.code.place(done)


def _optional(p: Printing, node: ir.Expression, at: int, value: Emit) -> None:
    """Print code that puts a string, if it is not NULL, into the frame; rax is 0 if it is NULL."""
    size = longest(p, node)
    if _is_looked_at(node):
        _look(p, node, at, size, value)
    elif is_null(node) or not p.nulls.may_be(node):
        if not is_null(node):
            text(p, node, at, size, value)
        p.code.constant(not is_null(node))
    else:
        raise NotInKernel("the comparison of a string that may be NULL")


def load_keyed(p: Printing, node: ir.Keyed, to: int, size: int, value: Emit) -> None:
    """Print code that loads a looked-up variable into the frame, or zeros; rax tells whether it exists."""
    with p.frame.room(node.key_size) as at:
        key(p, at, node.keys, node.layout, node.key_size, value)
        p.code.call("load_dynamic", variable(node), at, node.key_size, to, size)


def key(
    p: Printing, at: int, keys: Sequence[ir.Expression], layout: Sequence[Datum], size: int, value: Emit
) -> None:  # fmt: skip
    """Print code that fills in a key of ``size`` bytes. Keys are compared byte by byte."""
    zero(p, at, size, layout)
    for each, datum in zip(keys, layout, strict=True):
        store(p, at + datum.offset, each, datum, value)


def zero(p: Printing, at: int, size: int, layout: Sequence[Datum]) -> None:
    """Print code that zeros the words that the data do not fill."""
    whole = {
        word
        for datum in layout
        if datum.kind is not Kind.INT or datum.size == WORD
        for word in range(-(-datum.offset // WORD), (datum.offset + datum.size) // WORD)
    }
    for word in range(-(-size // WORD)):
        if word not in whole:
            p.code.emit("store immediate", at + WORD * word, 0)


def store(p: Printing, at: int, node: ir.Expression, datum: Datum, value: Emit) -> None:
    """Print code that stores a value in its place in a key or a record."""
    if datum.kind is Kind.INT:
        value(p, node)
        p.code.emit(f"store {datum.size}", at)
    elif datum.kind is Kind.STRING:
        text(p, node, at, datum.size, value)
    elif datum.kind is Kind.BYTES:
        whole(p, node, at, datum.size, value)
    elif datum.kind is Kind.STACK:
        p.code.call("stack", at, datum.size)
    elif datum.kind is Kind.USTACK:
        p.code.call("ustack", at, datum.size)
    elif datum.kind in (Kind.SYM, Kind.MOD) and isinstance(node, ir.Call):
        value(p, node.arguments[0])
        p.code.emit("store 8", at)
    elif datum.kind in (Kind.USYM, Kind.UMOD, Kind.UADDR) and isinstance(node, ir.Call):
        value(p, node.arguments[0])
        p.code.emit("store 8", at + WORD)
        p.code.call("image")
        p.code.emit("store 8", at)
    else:
        raise NotInKernel(_CALLED.get(datum.kind, f"{datum.kind}()"))


def whole(p: Printing, node: ir.Expression, to: int, size: int, value: Emit) -> None:
    """Print code that puts a whole struct or array into ``size`` bytes of the frame. Raises NotInKernel."""
    match node:
        case ir.Place(scope="this", offset=offset):
            p.code.call("copy", p.this + offset, to, size)
        case ir.Place(offset=offset):
            p.code.call("load_global", GLOBALS_START + offset, to, size)
        case ir.Keyed():
            load_keyed(p, node, to, size, value)
        case ir.Field(address=place) | ir.Call(name="packet", arguments=(place,)):
            value(p, place)
            with p.frame.room() as address:
                p.code.keep(address)
                p.code.call("load" if isinstance(node, ir.Field) else "packet", to, Slot(address), size)
                p.fails()
        case _:
            raise NotInKernel("an array or a struct as a whole")


_CALLED = {Kind.FLOAT: "a floating-point value"}


def variable(node: ir.Keyed) -> int:
    return node.variable | _SELF * node.by_thread

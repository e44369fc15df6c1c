# SPDX-License-Identifier: LGPL-2.1-or-later
"""Data in the frame: strings, with zeroes behind them, keys of variables, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gilk.lang import ir
from gilk.lang.data import Datum, Kind
from gilk.lang.to_kernel.code import WORD, Label, Slot
from gilk.lang.to_kernel.printing import GLOBALS_START, Printing
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import Array, String

Emit = Callable[[Printing, ir.Expression], None]
_PROBE_TEXTS = ("probeprov", "probemod", "probefunc", "probename")
_SELF = 0x80000000  # in the number of a variable: every thread has its own; GD_SELF, native/abi/gilk_d.h
_COMM = 16  # bytes of a task's name
_FAULT_ADDRESS = 1  # enum gd_fault, native/abi/gilk_d.h


def is_null(node: ir.Expression) -> bool:
    return isinstance(node, ir.Constant) and isinstance(node.type, String)


def longest(p: Printing, node: ir.Expression) -> int:
    """Bytes that the string takes at the most, with its zero, in whole words."""
    match node:
        case ir.Literal(value=value):
            size = len(_encoded(value)) + 1
        case ir.Call(name="execname"):
            size = _COMM
        case ir.Call(name=name) if name in _PROBE_TEXTS:
            size = p.longest[_PROBE_TEXTS.index(name)]
        case ir.Conditional(yes=yes, no=no):
            size = max(longest(p, yes), longest(p, no))
        case _:
            size = p.strsize
    return min(size + 7 & -8, p.strsize)


def text(p: Printing, node: ir.Expression, at: int, size: int, value: Emit) -> None:
    """``size`` bytes of the frame from ``at`` on become the string. Raises NotInKernel."""
    match node:
        case ir.Literal(value=literal):
            data = _encoded(literal)[: min(size, p.strsize) - 1]
            p.code.call("constant", p.texts.place(data), len(data), at, size)
        case ir.Call(name="execname"):
            p.code.call("execname", at, size)
        case ir.Call(name=name) if name in _PROBE_TEXTS:
            p.code.call("probe_text", _PROBE_TEXTS.index(name), at, size)
        case ir.Call(name="copyinstr", arguments=(address, *most)):
            _copyin(p, (address, most[0] if most else None), at, size, value)
        case ir.Convert(operand=operand) if not isinstance(operand.type, String | Array):
            _copyin(p, (operand, None), at, size, value)
        case ir.Conditional():
            _either(p, node, at, size, value)
        case ir.Place() if not p.nulls.is_marked(node):
            _variable(p, node, at, size)
        case ir.Keyed():
            _keyed(p, node, at, size, value)
        case ir.Call(name=name):
            raise NotInKernel(f"{name}()")
        case ir.Bound():
            raise NotInKernel("a string of an inline or a translator")
        case _:
            raise NotInKernel("a string of this kind")


def _encoded(literal: str) -> bytes:
    return literal.encode("utf-8", "surrogateescape").split(b"\0")[0]


def _copyin(
    p: Printing, given: tuple[ir.Expression, ir.Expression | None], at: int, size: int, value: Emit
) -> None:  # fmt: skip
    """From memory that may not be there; ``given``: where, and the most that is taken."""
    address, most = given
    if most is not None and not isinstance(most, ir.Constant):
        raise NotInKernel("copyinstr() of a size that is computed")
    bound = size if most is None else max(min(size, most.value), 0)
    value(p, address)
    with p.frame.room() as kept:
        p.code.keep(kept)
        p.code.call("copyin_string", at, Slot(kept), bound, size)
        p.fails()


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
    taken = min(size, p.strsize)
    if node.scope == "this":
        p.code.call("copy", p.this + node.offset, at, taken)
    else:
        p.code.call("load_global", GLOBALS_START + node.offset, at, taken)
    if taken < size:
        p.code.call("zero", at + taken, size - taken)


def _keyed(p: Printing, node: ir.Keyed, at: int, size: int, value: Emit) -> None:
    """One that is not there is NULL, which cannot be read."""
    fine = Label()
    with p.frame.room(p.strsize) as found:
        load_keyed(p, node, found, p.strsize, value)
        p.code.emit("test eax")
        p.code.branch("jnz", fine)
        p.code.call("fail", _FAULT_ADDRESS, 0)
        p.code.branch("jmp", p.fault)
        p.code.place(fine)
        p.code.call("copy", found, at, min(size, p.strsize))
    if p.strsize < size:
        p.code.call("zero", at + p.strsize, size - p.strsize)


def compare(p: Printing, node: ir.Binary, value: Emit) -> None:
    """rax: below, at, or above 0, as the left one is below, like, or above the right one."""
    sides = (node.left, node.right)
    if any(map(is_null, sides)) or any(isinstance(side, ir.Keyed) for side in sides):
        raise NotInKernel("the comparison of a string that may be NULL")
    sizes = [longest(p, side) for side in sides]
    with p.frame.room(sizes[0]) as left, p.frame.room(sizes[1]) as right:
        text(p, node.left, left, sizes[0], value)
        text(p, node.right, right, sizes[1], value)
        p.code.call("compare", left, sizes[0], right, sizes[1])


def load_keyed(p: Printing, node: ir.Keyed, to: int, size: int, value: Emit) -> None:
    """The value in the frame, or zeroes; rax tells whether there is one."""
    with p.frame.room(node.key_size) as at:
        key(p, at, node.keys, node.layout, node.key_size, value)
        p.code.call("load_dynamic", variable(node), at, node.key_size, to, size)


def key(
    p: Printing, at: int, keys: Sequence[ir.Expression], layout: Sequence[Datum], size: int, value: Emit
) -> None:  # fmt: skip
    """Fill in a key of so many bytes, which are compared as they are."""
    zero(p, at, size, layout)
    for each, datum in zip(keys, layout, strict=True):
        store(p, at + datum.offset, each, datum, value)


def zero(p: Printing, at: int, size: int, layout: Sequence[Datum]) -> None:
    """The words that the data do not fill."""
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
    """A value where it belongs in a key or a record."""
    if datum.kind is Kind.INT:
        value(p, node)
        p.code.emit(f"store {datum.size}", at)
    elif datum.kind is Kind.STRING:
        text(p, node, at, datum.size, value)
    elif datum.kind is Kind.BYTES and isinstance(node, ir.Field):
        value(p, node.address)
        with p.frame.room() as address:
            p.code.keep(address)
            p.code.call("load", at, Slot(address), datum.size)
            p.fails()
    elif datum.kind is Kind.STACK:
        p.code.call("stack", at, datum.size)
    elif datum.kind in (Kind.SYM, Kind.MOD) and isinstance(node, ir.Call):
        value(p, node.arguments[0])
        p.code.emit("store 8", at)
    else:
        raise NotInKernel(_CALLED.get(datum.kind, f"{datum.kind}()"))


_CALLED = {Kind.BYTES: "an array or a struct as a whole", Kind.FLOAT: "a floating-point value"}


def variable(node: ir.Keyed) -> int:
    return node.variable | _SELF * node.by_thread

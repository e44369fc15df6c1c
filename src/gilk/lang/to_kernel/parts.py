# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of structs and arrays: of their members and elements, and of these variables as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gilk.lang import ir
from gilk.lang.to_kernel import data
from gilk.lang.to_kernel.code import Label, Slot
from gilk.lang.to_kernel.forms import RCX
from gilk.lang.to_kernel.printing import GLOBALS_START, Printing, Room, width
from gilk.lang.types import UINT64, Enumeration, Type, size_of

Emit = Callable[[Printing, ir.Expression], None]
_ALL = (1 << 64) - 1
_FAULT_INDEX = 11  # enum gd_fault, native/abi/gilk_d.h


def read(p: Printing, node: ir.Part, value: Emit) -> None:
    """Print a load of a part into rax."""
    size, _ = width(node.type)
    with p.frame.room() as to:
        _load(p, node, to, size, value)
        p.load(node.type, to)
        if node.bits:
            p.code.recall(to)
            extract(p, node.type, node.bits, node.shift)


def write(p: Printing, target: ir.Part, value: Emit) -> None:
    """Print a store of rax into a part; rax is then the part's value."""
    size, _ = width(target.type)
    with p.frame.room() as kept, p.frame.room() as made:
        p.code.keep(kept)
        with _whole(p, target, value, stored=True) as (whole, at):
            if target.bits:
                p.code.emit("store immediate", made, 0)
                _move(p, whole, at, made, size)
                merge(p, kept, made, target.bits, target.shift)
            _store(p, whole, at, made if target.bits else kept, size)
        recall(p, target, kept)


def fill(p: Printing, node: ir.Expression, to: int, size: int, value: Emit) -> None:
    """Print code that puts a whole struct or array into ``size`` bytes of the frame. Raises NotInKernel."""
    if isinstance(node, ir.Part):
        _load(p, node, to, size, value)
    else:
        data.whole(p, node, to, size, value)


def assign(p: Printing, target: ir.Target, given: ir.Expression, value: Emit) -> None:
    """Print a store of a whole struct. It leaves no value in rax. Raises NotInKernel."""
    size = size_of(target.type, p.strsize)
    with p.frame.room(size) as at:
        if isinstance(target, ir.Keyed) and isinstance(given, ir.Constant):
            _forget(p, target, value)
            return
        fill(p, given, at, size, value)
        match target:
            case ir.Place():
                _store(p, target, _start(p, target), at, size)
            case ir.Keyed():
                _keep(p, target, at, value)
            case ir.Part():
                with _whole(p, target, value, stored=True) as (whole, where):
                    _store(p, whole, where, at, size)
            case ir.Field():
                _put(p, target, at, size, value)


def _put(p: Printing, target: ir.Field, at: int, size: int, value: Emit) -> None:
    with p.frame.room() as address:
        value(p, target.address)
        p.code.keep(address)
        p.code.call("assign", Slot(address), at, size)
    p.fails()


def recall(p: Printing, target: ir.Part | ir.Field, kept: int) -> None:
    """Print code after which rax is the stored value at ``kept``, cut to the bits of a bit-field."""
    p.code.recall(kept)
    if target.bits:
        extract(p, target.type, target.bits, 0)


def extract(p: Printing, type_: Type, bits: int, shift: int) -> None:
    """Print code that takes a bit-field out of rax."""
    _, signed = width(type_)
    if isinstance(type_, Enumeration) and all(number >= 0 for _, number in type_.names):
        signed = False  # as compilers do it
    for how, by in (("shl", 64 - bits - shift), ("sar" if signed else "shr", 64 - bits)):
        p.code.constant(by, RCX)
        p.code.emit(f"{how} rax, cl")


def merge(p: Printing, kept: int, made: int, bits: int, shift: int) -> None:
    """Print code that puts the value at ``kept`` into a bit-field of the word at ``made``."""
    code = p.code
    mask = (1 << bits) - 1 << shift
    with p.frame.room() as part:
        code.constant(mask)
        code.keep(part)
        code.recall(kept)
        code.constant(shift, RCX)
        code.emit("shl rax, cl")
        code.emit("mov rcx, frame", part)
        code.emit("and rax, rcx")
        code.keep(part)
        code.constant(~mask & _ALL)
        code.emit("mov rcx, frame", made)
        code.emit("and rax, rcx")
        code.emit("mov rcx, frame", part)
        code.emit("or rax, rcx")
        code.keep(made)


def address(p: Printing, node: ir.Address, value: Emit) -> None:
    """Print code after which rax is the address of a variable at a fixed place, or of a part of one."""
    of = node.of if isinstance(node.of, ir.Part) else ir.Part(node.of.type, node.of, 0)
    assert isinstance(of.whole, ir.Place)
    with _offset(p, of, _start(p, of.whole), value) as at:
        p.code.call("address", of.whole.scope != "this", at, size_of(of.type, p.strsize))
    p.code.emit("test rax")
    p.code.branch("jz", p.fault)


# A variable with a part: one at a fixed place, or a copy of a looked-up one at an offset in the frame.


@contextmanager
def _whole(
    p: Printing, node: ir.Part, value: Emit, stored: bool
) -> Iterator[tuple[ir.Place | int, int | Slot]]:  # fmt: skip
    """The variable, and the offset of the part in it; if ``stored``, the copy is stored at the end of the block."""
    if isinstance(node.whole, ir.Place):
        with _offset(p, node, _start(p, node.whole), value) as at:
            yield node.whole, at
        return
    with p.frame.room(size_of(node.whole.type, p.strsize)) as copy:
        data.load_keyed(p, node.whole, copy, size_of(node.whole.type, p.strsize), value)
        with _offset(p, node, copy, value) as at:
            yield copy, at
        if stored:
            _keep(p, node.whole, copy, value)


def _start(p: Printing, whole: ir.Place) -> int:
    return whole.offset + (p.this if whole.scope == "this" else GLOBALS_START)


@contextmanager
def _offset(p: Printing, node: ir.Part, start: int, value: Emit) -> Iterator[int | Slot]:
    """The offset of a part, from that of its variable; it is computed if there are indices, each below its count."""
    if not node.indices:
        yield start + node.offset
        return
    outer = p.bound
    with p.frame.room() as at, p.frame.room() as index:
        p.code.constant(start + node.offset)
        p.code.keep(at)
        for given, count, size in node.indices:
            value(p, given)
            p.code.keep(index)
            number, sum_ = (ir.Bound(UINT64, -1 - len(p.bound) - each) for each in (0, 1))
            p.bound = {**p.bound, number.number: Room(index, 8), sum_.number: Room(at, 8)}
            _check(p, number, count, index, value)
            moved = ir.Binary(UINT64, "*", number, ir.Constant(UINT64, size))
            value(p, ir.Binary(UINT64, "+", sum_, moved))
            p.code.keep(at)
            p.bound = outer
        yield Slot(at)


def _check(p: Printing, number: ir.Bound, count: int, index: int, value: Emit) -> None:
    fine = Label()
    value(p, ir.Binary(UINT64, "<", number, ir.Constant(UINT64, count)))
    p.code.emit("test rax")
    p.code.branch("jnz", fine)
    p.code.call("fail", _FAULT_INDEX, Slot(index))
    p.code.branch("jmp", p.fault)
    p.code.place(fine)


def _load(p: Printing, node: ir.Part, to: int, size: int, value: Emit) -> None:
    with _whole(p, node, value, stored=False) as (whole, at):
        _move(p, whole, at, to, size)


def _move(p: Printing, whole: ir.Place | int, at: int | Slot, to: int, size: int) -> None:
    if isinstance(whole, ir.Place) and whole.scope != "this":
        p.code.call("load_global", at, to, size)
    else:
        p.code.call("copy", at, to, size)


def _store(p: Printing, whole: ir.Place | int, at: int | Slot, from_: int, size: int) -> None:
    if isinstance(whole, ir.Place) and whole.scope != "this":
        p.code.call("store_global", from_, at, size)
    else:
        p.code.call("copy", from_, at, size)


def _keep(p: Printing, target: ir.Keyed, at: int, value: Emit) -> None:
    size = size_of(target.type, p.strsize)
    with p.frame.room(target.key_size) as found:
        data.key(p, found, target.keys, target.layout, target.key_size, value)
        p.code.call("store_dynamic", data.variable(target), found, target.key_size, at, size)


def _forget(p: Printing, target: ir.Keyed, value: Emit) -> None:
    with p.frame.room(target.key_size) as found:
        data.key(p, found, target.keys, target.layout, target.key_size, value)
        p.code.call("delete_dynamic", data.variable(target), found, target.key_size)

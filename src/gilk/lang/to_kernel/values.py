# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of expressions with an integer value: code that leaves the value in rax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gilk.lang import effects, ir, machine
from gilk.lang.to_c.expressions import applied
from gilk.lang.to_kernel import data, parts, places, scratch, strings
from gilk.lang.to_kernel.code import WORD, Label, Slot
from gilk.lang.to_kernel.forms import RCX
from gilk.lang.to_kernel.printing import Printing, immediate, number, width
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.lang.types import Array, Record, String, Void

#: The conditions of signed and of unsigned operands.
_COMPARED = {
    "==": ("e", "e"), "!=": ("ne", "ne"), "<": ("l", "b"), "<=": ("le", "be"), ">": ("g", "a"), ">=": ("ge", "ae"),
}  # fmt: skip
_ALU = {"+": "add", "-": "sub", "&": "and", "|": "or", "^": "xor", "*": "imul"}
#: Printers of calls that compute a number from strings.
_OF_STRINGS = {
    "strlen": strings.length, "strtoll": strings.number, "character": strings.character,
    **dict.fromkeys(strings.PLACES, strings.index),
}  # fmt: skip
_PARTS_OF_DEVICES = ("getmajor", "getminor")
_FAULT_DIVIDE = 4  # enum gd_fault, native/abi/gilk_d.h
#: Variables in the head of the frame: their offsets in struct ilk_d_event, and the forms that load them.
EVENT_PLACES = {
    "pid": (80, "load s32"), "tid": (84, "load s32"), "cpu": (88, "load s32"), "id": (92, "load u32"),
    "errno": (96, "load s32"), "ipl": (100, "load u32"),
}  # fmt: skip
_IDENTITY = {"ppid": 0, "uid": 1, "gid": 2, "euid": 3, "egid": 4, "curthread": 5, "by_processor": 6}
#: Registers in the order of the numbers that `uregister` takes (gd_register_places, native/runtime/d/program.h).
_REGISTERS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "", "rip",
    "", "", "rsp",
)  # fmt: skip
_USER_BITS = 47  # bits of an address in a process
_ASKED = ("timestamp", "walltimestamp", "vtimestamp", "rand", "caller", "stackdepth", "ucaller", "ustackdepth")


def value(p: Printing, node: ir.Expression) -> None:
    """Print code after which rax is the value. Raises NotInKernel if the expression cannot be printed."""
    handler: Callable[[Printing, Any], None] | None = _HANDLERS.get(type(node))
    if handler is None:
        raise NotInKernel(_NAMES.get(type(node), type(node).__name__.lower()))
    handler(p, node)


def _constant(p: Printing, node: ir.Constant) -> None:
    if isinstance(node.type, String):
        raise NotInKernel("NULL as a string")
    p.code.constant(number(node) & (1 << 64) - 1)


def _argument(p: Printing, node: ir.Argument) -> None:
    p.code.recall(WORD * node.number)


def _read(p: Printing, node: ir.Place | ir.Keyed) -> None:
    places.read(p, node, value)


def _field(p: Printing, node: ir.Field) -> None:
    """Print a read of memory that may not be there."""
    size, _ = width(node.type)
    value(p, node.address)
    with p.frame.room() as address, p.frame.room() as to:
        p.code.keep(address)
        p.code.emit("store immediate", to, 0)
        p.code.call("load", to, Slot(address), size)
        p.fails()
        p.load(node.type, to)
        if node.bits:
            p.code.recall(to)
            parts.extract(p, node.type, node.bits, node.shift)


def _shift(p: Printing, how: str, by: int) -> None:
    p.code.constant(by, RCX)
    p.code.emit(f"{how} rax, cl")


def _register(p: Printing, node: ir.Register) -> None:
    value(p, node.index)
    with p.frame.room() as index, p.frame.room() as to:
        p.code.keep(index)
        p.code.call("uregister", to, Slot(index))
        p.fails()
        p.code.recall(to)


def _reg(p: Printing, node: machine.Reg) -> None:
    with p.frame.room() as to:
        p.code.call("uregister", to, _REGISTERS.index(node.name))
        p.fails()
        p.code.recall(to)


def _peek(p: Printing, node: ir.Peek) -> None:
    """Print a read of memory of the process; the value is 0 if it cannot be read. An address given by the process may
    be the kernel's, so it is checked first.
    """
    done = Label()
    value(p, node.address)
    with p.frame.room() as address, p.frame.room() as to:
        p.code.keep(address)
        p.code.emit("store immediate", to, 0)
        _shift(p, "shr", _USER_BITS)
        p.code.emit("test rax")
        p.code.branch("jnz", done)
        p.code.call("load", to, Slot(address), node.type.size)
        p.code.emit("test eax")
        p.code.branch("jnz", done)
        p.code.emit("store immediate", to, 0)  # a part of it may have been there
        p.code.place(done)
        p.load(node.type, to)


def _part(p: Printing, node: ir.Part) -> None:
    parts.read(p, node, value)


def _address(p: Printing, node: ir.Address) -> None:
    parts.address(p, node, value)


def _unary(p: Printing, node: ir.Unary) -> None:
    if isinstance(node.operand.type, String):
        data.present(p, node.operand, value)
    else:
        value(p, node.operand)
    if node.operator == "!":
        p.code.emit("test rax")
        _truth(p, "e")
        return
    p.code.emit({"-": "neg rax", "~": "not rax"}[node.operator])
    p.normalise(node.type)


def _truth(p: Printing, condition: str) -> None:
    p.code.emit(f"set{condition} al")
    p.code.emit("extend u8")


def _binary(p: Printing, node: ir.Binary) -> None:
    if node.operator in ("&&", "||"):
        _short(p, node)
    elif isinstance(node.left.type, String):
        data.compare(p, node, value)
        p.code.emit("cmp rax, imm", 0)
        _truth(p, _COMPARED[node.operator][0])
    elif node.operator == "^^":
        _operands(p, _is_set(node.left), _is_set(node.right))
        p.code.emit("xor rax, rcx")
    elif node.operator in _COMPARED:
        _compare(p, node)
    elif node.operator in ("/", "%"):
        _divide(p, node)
    else:
        _arithmetic(p, node)


def _is_set(node: ir.Expression) -> ir.Expression:
    inner = ir.Unary(node.type, "!", node)
    return ir.Unary(node.type, "!", inner)


def _short(p: Printing, node: ir.Binary) -> None:
    """Print && or ||: the right side is computed only if the left one leaves the result open."""
    done = Label()
    test(p, node.left)
    _truth(p, "ne")
    p.code.emit("test rax")
    p.code.branch("jz" if node.operator == "&&" else "jnz", done)
    test(p, node.right)
    _truth(p, "ne")
    p.code.place(done)


def test(p: Printing, node: ir.Expression) -> None:
    """Print code that sets the flags by whether the value is 0, or NULL. Raises NotInKernel."""
    if isinstance(node.type, String):
        data.present(p, node, value)
    else:
        value(p, node)
    p.code.emit("test rax")


def _operands(p: Printing, left: ir.Expression, right: ir.Expression) -> None:
    """Print code that computes two values, in order; the left one is then in rax, the right one in rcx."""
    value(p, left)
    with p.frame.room() as kept:
        p.code.keep(kept)
        value(p, right)
        p.code.emit("mov rcx, rax")
        p.code.recall(kept)


def _compare(p: Printing, node: ir.Binary) -> None:
    _, signed = width(node.left.type)
    right = immediate(node.right)
    if right is not None:
        value(p, node.left)
        p.code.emit("cmp rax, imm", right)
    else:
        _operands(p, node.left, node.right)
        p.code.emit("cmp rax, rcx")
    _truth(p, _COMPARED[node.operator][not signed])


def _arithmetic(p: Printing, node: ir.Binary) -> None:
    right = immediate(node.right)
    if node.operator in _ALU and node.operator != "*" and right is not None:
        value(p, node.left)
        p.code.emit(f"{_ALU[node.operator]} rax, imm", right)
    elif node.operator in _ALU:
        _operands(p, node.left, node.right)
        p.code.emit(f"{_ALU[node.operator]} rax, rcx")
    else:
        size, signed = width(node.type)
        _operands(p, node.left, node.right)
        p.code.emit("and ecx, imm", 8 * size - 1)
        p.code.emit({"<<": "shl rax, cl", ">>": "sar rax, cl" if signed else "shr rax, cl"}[node.operator])
    p.normalise(node.type)


def _divide(p: Printing, node: ir.Binary) -> None:
    """Print a division; by 0 it is a fault."""
    _, signed = width(node.type)
    value(p, node.left)
    with p.frame.room() as left, p.frame.room() as right:
        p.code.keep(left)
        value(p, node.right)
        p.code.keep(right)
        fine = Label()
        p.code.emit("test rax")
        p.code.branch("jnz", fine)
        p.code.call("fail", _FAULT_DIVIDE, 0)
        p.code.branch("jmp", p.fault)
        p.code.place(fine)
        p.code.call("divide", Slot(left), Slot(right), (node.operator == "%") | signed << 1)
    p.normalise(node.type)


def _conditional(p: Printing, node: ir.Conditional) -> None:
    no, done = Label(), Label()
    test(p, node.test)
    p.code.branch("jz", no)
    value(p, node.yes)
    p.code.branch("jmp", done)
    p.code.place(no)
    value(p, node.no)
    p.code.place(done)


def _convert(p: Printing, node: ir.Convert) -> None:
    if isinstance(node.operand.type, String):
        raise NotInKernel("a string as a number")
    value(p, node.operand)
    if not isinstance(node.type, Void):
        p.normalise(node.type)


# Assignment.


def _assign(p: Printing, node: ir.Assign) -> None:
    target, given = node.target, node.value
    if isinstance(target.type, String):
        places.write_string(p, target, given, value)
        return
    if isinstance(target.type, Record | Array):
        parts.assign(p, target, given, value)
        return
    if node.operator and isinstance(target, ir.Field):
        with scratch.once(p, target, value) as found:
            value(p, applied(replace(node, target=found)))
            p.normalise(target.type)
            places.write(p, found, value)
        return
    if node.operator:
        _check_once(target)
        given = applied(node)
    value(p, given)
    p.normalise(target.type)
    places.write(p, target, value)


def _check_once(target: ir.Target) -> None:
    if effects.has(target):
        raise NotInKernel("an assignment in the key of what is read and written")


def _step(p: Printing, node: ir.Step) -> None:
    if isinstance(node.target, ir.Field):
        with scratch.once(p, node.target, value) as found:
            _stepped(p, replace(node, target=found))
        return
    _check_once(node.target)
    _stepped(p, node)


def _stepped(p: Printing, node: ir.Step) -> None:
    with p.frame.room() as old:
        value(p, node.target)
        p.code.keep(old)
        p.code.emit("add rax, imm", node.by)
        p.normalise(node.type)
        places.write(p, node.target, value)
        if not node.before:
            p.code.recall(old)


def _comma(p: Printing, node: ir.Comma) -> None:
    value(p, node.left)
    value(p, node.right)


def _bound(p: Printing, node: ir.Bound) -> None:
    p.code.recall(p.bound[node.number].at)


def _let(p: Printing, node: ir.Let) -> None:
    with data.binding(p, node, value):
        value(p, node.body)


def _call(p: Printing, node: ir.Call) -> None:
    if node.name in EVENT_PLACES:
        at, form = EVENT_PLACES[node.name]
        p.code.emit(form, at)
    elif node.name == "is_set":
        data.present(p, node.arguments[0], value)
    elif node.name in strings.MADE | strings.FOUND:
        data.present(p, node, value)  # it is computed only for its faults
    elif node.name in _OF_STRINGS:
        _OF_STRINGS[node.name](p, node, value, data.text)
        p.normalise(node.type)
    elif node.name in _PARTS_OF_DEVICES:
        _part_of_device(p, node)
    elif node.name in strings.SWAPS:
        strings.swap(p, node, value)
        p.normalise(node.type)
    elif node.name in _IDENTITY:
        p.code.call("identity", _IDENTITY[node.name])
        p.normalise(node.type)
    elif node.name in _ASKED:
        p.code.call(node.name)
    elif node.name == "progenyof":
        _progeny(p, node)
    elif node.name == "speculation":
        p.code.call("speculation")
        p.normalise(node.type)
    elif node.name == "copyin":
        data.copyin(p, node, value)
    elif node.name in scratch.CALLS:
        scratch.CALLS[node.name](p, node, value)
    else:
        raise NotInKernel(node.name if node.name == "epid" else f"{node.name}()")


def _progeny(p: Printing, node: ir.Call) -> None:
    value(p, node.arguments[0])
    with p.frame.room() as process:
        p.code.keep(process)
        p.code.call("progenyof", Slot(process))
    p.normalise(node.type)


def _part_of_device(p: Printing, node: ir.Call) -> None:
    """Print getmajor() or getminor(): the kernel's device numbers have 12 and 20 bits."""
    value(p, node.arguments[0])
    if node.name == "getmajor":
        _shift(p, "shr", 20)
        p.code.emit("and rax, imm", 0xFFF)
    else:
        p.code.emit("and rax, imm", 0xFFFFF)


_NAMES: dict[type, str] = {
    ir.Literal: "a string as a number", ir.Xlate: "xlate", ir.Ask: "a system call",
}  # fmt: skip
_HANDLERS: dict[type, Callable[[Printing, Any], None]] = {
    ir.Constant: _constant, ir.Argument: _argument, ir.Place: _read, ir.Keyed: _read, ir.Field: _field,
    ir.Part: _part, ir.Address: _address,
    ir.Register: _register, ir.Unary: _unary, ir.Binary: _binary, ir.Conditional: _conditional, ir.Convert: _convert,
    machine.Reg: _reg, ir.Peek: _peek,
    ir.Assign: _assign, ir.Step: _step, ir.Comma: _comma, ir.Bound: _bound, ir.Let: _let, ir.Call: _call,
}  # fmt: skip

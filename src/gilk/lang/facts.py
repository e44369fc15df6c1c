# SPDX-License-Identifier: LGPL-2.1-or-later
"""Facts about code of lang/ir.py: what it needs of the machine and what it does. They are computed from the tree,
before any code is printed.

Modules that place code somewhere use them to decide which registers to save, which arguments to fetch, whether a
seccomp filter stands in the way, and whether the code uses names of probes, speculations or signals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gilk.lang import ir, machine
from gilk.lang.operations import OPERATIONS
from gilk.lang.runtime import FUNCTIONS, Does
from gilk.lang.types import Array, String, is_scalar
from gilk.lang.walk import operands
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about code. ``arguments``: numbers of the probe's arguments that it uses, from 0; ``locals``: those of
    variables of the function at the place. ``registers`` and ``stack``: the registers by name, and the words of the
    stack by number from 0, that it reads of the machine's state at the place. A function that looks at registers by
    number has Does.REGISTERS instead.
    """

    does: Does = Does.NOTHING
    arguments: frozenset[int] = frozenset()
    registers: frozenset[str] = frozenset()
    stack: frozenset[int] = frozenset()
    locals: frozenset[int] = frozenset()

    def __or__(self, other: Facts) -> Facts:
        return Facts(
            self.does | other.does,
            self.arguments | other.arguments,
            self.registers | other.registers,
            self.stack | other.stack,
            self.locals | other.locals,
        )

    @property
    def calls(self) -> bool:
        """Whether the code makes system calls as the thread in which it runs."""
        return bool(self.does & Does.CALLS)


NOTHING = Facts()
LARGE_KEY = 512  # bytes: a longer key is not kept on the thread's stack
#: The registers that hold the arguments of system calls, in order.
SYSCALL_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
#: The registers that hold the arguments of functions, in order; further arguments follow the return address on the
#: stack.
CALL_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")


def facts(node: ir.Node) -> Facts:
    """The facts about a node and all nodes below it, on both ways of each branch."""
    if isinstance(node, ir.Assign | ir.Step):
        return _written(node)
    own: Callable[[Any], Facts] | None = _OWN.get(type(node))
    return union((*map(facts, operands(node)), *(() if own is None else (own(node),))))


def fetched(given: ir.Given, used: Facts) -> Facts:
    """The facts about the expressions in which a place provides what code with the facts ``used`` needs."""
    wanted = [given.arguments[number] for number in used.arguments if number < len(given.arguments)]
    wanted += [given.locals[number] for number in used.locals if number < len(given.locals)]
    wanted += [given.select, given.condition, *([given.error] if used.does & Does.ERROR else ())]
    return union(facts(each) for each in wanted if each is not None)


def union(some: Iterable[Facts]) -> Facts:
    found = NOTHING
    for each in some:
        if each is not NOTHING:
            found = each if found is NOTHING else found | each
    return found


def _of(*functions: str) -> Facts:
    does = Does.NOTHING
    for function in functions:
        does |= FUNCTIONS[function].does
    return Facts(does)


def _written(node: ir.Assign | ir.Step) -> Facts:
    """The facts about an assignment. A target that is only written is not read, so memory takes no system call for
    reading.
    """
    parts = union(map(facts, operands(node.target)))
    if isinstance(node, ir.Assign):
        parts |= facts(node.value) | (_FAILING if node.operator in ("/", "%") else NOTHING)
    if isinstance(node, ir.Step) or node.operator:
        parts |= facts(node.target)
    match node.target:
        case ir.Keyed():
            return parts | _keyed(node.target)
        case ir.Part():
            return parts | _indexed(node.target)
        case ir.Field(bits=bits):
            return parts | (_MASKED if bits else _ASSIGNED)
    return parts


def _converted(node: ir.Convert) -> Facts:
    """The facts about a conversion. A string is copied, from the process unless it lies in a variable."""
    if not isinstance(node.type, String):
        return NOTHING
    return _SCRATCH if isinstance(node.operand.type, Array) else _STRING


def _keyed(node: ir.Keyed) -> Facts:
    """The facts about a looked-up variable: a value larger than a register and a long key need scratch memory."""
    return NOTHING if is_scalar(node.type) and node.key_size <= LARGE_KEY else _SCRATCH


def _indexed(node: ir.Part) -> Facts:
    return _FAILING if node.indices else NOTHING


def _aggregated(node: ir.Aggregate) -> Facts:
    return NOTHING if node.aggregation.key_size <= LARGE_KEY else _SCRATCH


def _stack_word(number: int) -> Facts:
    return Facts(_PEEK.does, registers=_PEEK.registers, stack=frozenset((number,)))


def _call_argument(number: int) -> Facts:
    inside = number < len(CALL_ARGUMENTS)
    return Facts(registers=frozenset((CALL_ARGUMENTS[number],))) if inside else _stack_word(stack_word(number))


def stack_word(argument: int) -> int:
    """The number of the stack word that holds ``argument``, which is 6 or more; word 0 is the return address."""
    return argument - len(CALL_ARGUMENTS) + 1


_ASSIGNED, _MASKED = _of("gd_assign"), _of("gd_load", "gd_assign")
_SCRATCH, _STRING = _of("gd_alloca"), _of("gd_alloca", "gd_copyin_string")
_LOADED, _MEMORY, _FAILING = _of("gd_load"), _of("gd_alloca", "gd_load"), _of("gd_fail")
_PEEK = Facts(Does.READS | Does.CALLS, registers=frozenset(("rsp",)))
_BY_OPERATION = {name: Facts(each.does) for name, each in OPERATIONS.items()}
_OWN: dict[type, Callable[[Any], Facts]] = {
    ir.Argument: lambda node: Facts(arguments=frozenset((node.number,))),
    ir.Local: lambda node: Facts(locals=frozenset((node.number,))),
    ir.Register: lambda node: _of("gd_register"),
    ir.Call: lambda node: _BY_OPERATION[node.name],
    ir.Act: lambda node: _BY_OPERATION[node.action],
    ir.Place: lambda node: _FAILING if isinstance(node.type, String) else NOTHING,  # it may be NULL
    ir.Keyed: _keyed,
    ir.Part: _indexed,
    ir.Field: lambda node: _LOADED if is_scalar(node.type) else _MEMORY,
    ir.Binary: lambda node: _FAILING if node.operator in ("/", "%") else NOTHING,
    ir.Convert: _converted,
    ir.Aggregate: _aggregated,
    machine.Reg: lambda node: Facts(registers=frozenset((node.name,))),
    machine.StackWord: lambda node: _stack_word(node.number),
    ir.Peek: lambda node: _PEEK,
    machine.CallArg: lambda node: _call_argument(node.number),
    machine.CallResult: lambda node: Facts(registers=frozenset(("rax",))),
    machine.Start: lambda node: Facts(Does.BEGINS),
    machine.SyscallNumber: lambda node: Facts(registers=frozenset(("rsp" if node.left else "rax",))),
    machine.SyscallArg: lambda node: Facts(registers=frozenset((SYSCALL_ARGUMENTS[node.number],))),
    machine.SyscallResult: lambda node: Facts(registers=frozenset(("rax",))),
    machine.SyscallError: lambda node: Facts(registers=frozenset(("rax",))),
    machine.ProcessId: lambda node: Facts(Does.CALLS),
    machine.ThreadId: lambda node: Facts(Does.CALLS),
    ir.Ask: lambda node: Facts(Does.CALLS),
}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of lang/machine.py in a process: ``regs`` is the machine's state at the place, ``start`` the beginning of its
function.

The functions that it calls are those of lang/to_c/sites.py and native/runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gilk.lang import ir, machine
from gilk.lang.facts import CALL_ARGUMENTS, SYSCALL_ARGUMENTS, stack_word
from gilk.lang.to_c.emit import c_type
from gilk.lang.to_c.places import Emit

_ASKED = 4  # arguments of a system call


def _call_argument(_: Emit, node: machine.CallArg) -> str:
    inside = node.number < len(CALL_ARGUMENTS)
    return f"regs->{CALL_ARGUMENTS[node.number]}" if inside else _word(stack_word(node.number))


def _word(number: int) -> str:
    return f"d_word(regs, regs->rsp + {8 * number}, 8)"


def _peek(emit: Emit, node: ir.Peek) -> str:
    return f"(({c_type(node.type)})d_word(regs, {emit(node.address)}, {node.type.size}))"


def _ask(emit: Emit, node: ir.Ask) -> str:
    given = [*map(emit, node.arguments), *["0"] * (_ASKED - len(node.arguments))]
    return f"(({c_type(node.type)})host_syscall4({node.call}, {', '.join(given)}))"


#: The C of a node, by its class; the first argument of each function prints operands.
PRINTERS: dict[type, Callable[[Emit, Any], str]] = {
    machine.Reg: lambda _, node: f"regs->{node.name}",
    machine.StackWord: lambda _, node: _word(node.number),
    machine.CallArg: _call_argument,
    machine.CallResult: lambda _, node: "regs->rax",
    machine.Start: lambda _, node: "start",
    machine.SyscallNumber: lambda _, node: "d_number(regs)" if node.left else "((gd_s32)regs->rax)",
    machine.SyscallArg: lambda _, node: f"regs->{SYSCALL_ARGUMENTS[node.number]}",
    machine.SyscallResult: lambda _, node: "regs->rax",
    machine.SyscallError: lambda _, node: "d_error(regs)",
    machine.ClockCounter: lambda _, node: "host_clock()",
    machine.ProcessId: lambda _, node: "((gd_s32)host_pid())",
    machine.ThreadId: lambda _, node: "((gd_s32)host_tid())",
    ir.Peek: _peek,
    ir.Ask: _ask,
}

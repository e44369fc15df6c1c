# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables that D has without a declaration, and names for numbers: one row for each.

Built-in variables that are plain values, without an argument, are rows of lang/variables.py.
"""

from __future__ import annotations

import errno
import signal

from gilk.lang import ir
from gilk.lang.types import INT64, UINT64, Array, Type
from gilk.lang.variables import BUILT_INS

#: In the order of Linux' struct pt_regs, as in DTrace 2.0, and what DTrace has behind them.
_REGISTERS = "R15 R14 R13 R12 RBP RBX R11 R10 R9 R8 RAX RCX RDX RSI RDI ERR RIP CS RFL RSP SS DS ES FS GS TRAPNO"
REGISTERS = len(_REGISTERS.split())
_ALSO = {"PC": "EIP", "FP": "EBP", "SP": "ESP", "PS": "EFL", "R0": "EAX", "R1": "EBX"}
_FAULTS = "UNKNOWN BADADDR BADALIGN ILLOP DIVZERO NOSCRATCH KPRIV UPRIV TUPOFLOW BADSTACK"
_NARROW = "BX CX DX SI DI BP AX IP FL SP"  # behind an E the names of 32-bit registers, which mean the whole ones


def _builtins() -> dict[str, Type]:
    rows: list[tuple[str, Type]] = [
        (" ".join(f"arg{n}" for n in range(10)), INT64),
        ("uregs", Array(UINT64, 64)),
    ]
    return {name: type_ for names, type_ in rows for name in names.split()} | {
        name: row.type for name, row in BUILT_INS.items()
    }


BUILTINS = _builtins()
_ARGUMENTS = {f"arg{number}": number for number in range(10)}
#: Variables whose evaluation unwinds the stack of the process.
OF_STACKS = frozenset(("ucaller", "ustackdepth"))
#: Variables that are the number of frames of a stack.
DEPTHS = frozenset(("stackdepth", "ustackdepth"))
#: Variables that have a value only in a kernel's clauses, with the struct to which they point.
OF_THE_KERNEL = {"curthread": "task_struct"}


def builtin(name: str) -> ir.Expression:
    """The expression for the variable ``name``, which is no array."""
    type_ = BUILTINS[name]
    return ir.Argument(type_, _ARGUMENTS[name]) if name in _ARGUMENTS else ir.Call(type_, name)


def is_builtin(value: ir.Expression) -> bool:
    """Whether the expression is a built-in variable, or a register."""
    if isinstance(value, ir.Call):
        return not value.arguments and value.name in BUILTINS
    return isinstance(value, ir.Argument | ir.Register)


def _constants() -> dict[str, int]:
    found = {name: int(getattr(signal, name)) for name in dir(signal) if name.startswith("SIG") and name.isalnum()}
    found.update((name, getattr(errno, name)) for name in dir(errno) if name.startswith("E"))  # EDEADLK is EDEADLOCK
    found["EHWPOISON"] = 133  # not in Python's module before 3.14
    found.update((f"R_{name}", number) for number, name in enumerate(_REGISTERS.split()))
    found.update((f"R_E{name}", found[f"R_R{name}"]) for name in _NARROW.split())
    found.update((f"R_{name}", found[f"R_{of}"]) for name, of in _ALSO.items())
    found.update((f"DTRACEFLT_{name}", number) for number, name in enumerate(_FAULTS.split()))
    network = {"AF_INET": 2, "AF_INET6": 10, "ARPHRD_ETHER": 1, "ARPHRD_INFINIBAND": 32}
    return {**found, **network, "NULL": 0}


#: Inlines that DTrace's D libraries define.
CONSTANTS = _constants()

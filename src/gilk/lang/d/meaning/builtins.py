# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables that D has without their being declared, and names for numbers: one row each."""

from __future__ import annotations

import errno
import signal

from gilk.lang.d.types import ALIASES, INT, INT64, STRING, UINT, UINT64, VOID, Array, Pointer, Type

_REGISTERS = "R15 R14 R13 R12 RBP RBX R11 R10 R9 R8 RDI RSI RDX RCX RAX TRAPNO ERR RIP CS RFL RSP SS"


def _builtins() -> dict[str, Type]:
    rows: list[tuple[str, Type]] = [
        (" ".join(f"arg{n}" for n in range(10)), INT64),
        ("timestamp vtimestamp walltimestamp", UINT64),
        ("execname probeprov probemod probefunc probename cwd root", STRING),
        ("pid ppid tid", ALIASES["pid_t"]),
        ("uid gid euid egid", ALIASES["uid_t"]),
        ("id epid stackdepth ustackdepth", UINT),
        ("cpu errno ipl", INT),
        ("caller ucaller", UINT64),
        ("curthread", Pointer(VOID)),
        ("uregs", Array(UINT64, 64)),
    ]
    return {name: type_ for names, type_ in rows for name in names.split()}


BUILTINS = _builtins()
#: Those that a program is refused for.
UNSUPPORTED = frozenset(["ustackdepth"])
#: Those that only a probe in the kernel would have a value for.
OF_THE_KERNEL = frozenset(["caller", "stackdepth", "curthread"])


def _constants() -> dict[str, int]:
    found = {name: int(getattr(signal, name)) for name in dir(signal) if name.startswith("SIG") and name.isalnum()}
    found.update((name, number) for number, name in errno.errorcode.items())
    found.update((f"R_{name}", number) for number, name in enumerate(_REGISTERS.split()))
    return {**found, "NULL": 0, "R_PC": found["R_RIP"], "R_SP": found["R_RSP"], "R_FP": found["R_RBP"]}


#: Inlines of the D libraries.
CONSTANTS = _constants()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values that every program has by name, about the event, the thread and the process: one row for each.

A row has a name, a type, then functions of lang/runtime.py that its code calls, and in capitals the flags of
runtime.Does for what the code itself does. A new variable needs only a row here and a file ``native/runtime/d/NAME.h``
that the row names; the file defines a function ``gd_NAME(struct gd_context *)`` that returns the value and needs no row
of its own.
"""

from __future__ import annotations

from gilk.lang.types import ALIASES, INT, STRING, UINT, UINT64, VOID, Pointer, Type
from gilk.values import dataclass

_ROWS = """
    timestamp       u64     gd_timestamp
    walltimestamp   u64     gd_walltimestamp
    vtimestamp      u64     gd_vtimestamp
    execname        string  gd_execname
    probeprov       string  gd_probe_text
    probemod        string  gd_probe_text
    probefunc       string  gd_probe_text
    probename       string  gd_probe_text
    pid             pid_t
    tid             pid_t
    ppid            pid_t   gd_environment
    uid             uid_t   gd_environment
    gid             uid_t   gd_environment
    euid            uid_t   gd_environment
    egid            uid_t   gd_environment
    root            string  gd_environment
    cwd             string  gd_alloca gd_cwd
    ipl             int
    id              u32
    epid            u32
    cpu             int     gd_cpu
    errno           int     ERROR
    ucaller         u64     gd_ucaller
    ustackdepth     u32     gd_ustackdepth
    caller          u64
    stackdepth      u32
    curthread       void*
"""
_TYPES: dict[str, Type] = {
    "int": INT, "u32": UINT, "u64": UINT64, "string": STRING, "pid_t": ALIASES["pid_t"], "uid_t": ALIASES["uid_t"],
    "void*": Pointer(VOID),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in variable. ``does``: names of runtime.Does. ``header``: the file in native/runtime/d that defines its
    function, or "" if the function is in one of the runtime's other files.
    """

    name: str
    type: Type
    functions: tuple[str, ...]
    does: tuple[str, ...]
    header: str = ""


def _built_in(row: str) -> BuiltIn:
    name, type_, *rest = row.split()
    functions = tuple(word for word in rest if word.startswith("gd_"))
    headers = [word for word in rest if word.endswith(".h")]
    return BuiltIn(
        name,
        _TYPES[type_],
        (*functions, f"gd_{name}") if headers else functions,
        tuple(word for word in rest if word.isupper()),
        *headers,
    )


BUILT_INS = {each.name: each for each in map(_built_in, _ROWS.strip().splitlines())}

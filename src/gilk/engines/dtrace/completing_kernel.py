# SPDX-License-Identifier: LGPL-2.1-or-later
"""Completion of names of a kernel: providers, modules, functions and names of its probes, and its symbols."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from gilk.engines.dtrace.machine import TracedMachine
from gilk.lang.d.meaning.functions import FUNCTIONS, OF_THE_KERNEL, Role
from gilk.lang.d.probes import Description
from gilk.lang.d.writing.offered import OfferedWord, signature
from gilk.providers import IN_KERNEL

_KINDS = ("provider", "module", "function", "probe")
_CORE = ("", "kernel", "vmlinux")  # names of the kernel without its modules
_ABOUT = {
    "fbt": "functions of the kernel", "syscall": "system calls of all processes", "rawtp": "the kernel's tracepoints",
    "sched": "threads and processors", "proc": "processes that begin and end", "io": "disks", "ip": "packets",
    "tcp": "connections", "udp": "datagrams", "sysinfo": "counters of the system", "vminfo": "counters of memory",
    "fsinfo": "operations on files", "lockstat": "locks of the kernel", "pid": "functions of $target",
}  # fmt: skip
_IN_FIELD = re.compile(r"[-$\w.`]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def providers() -> Iterator[OfferedWord]:
    for name in filter(None, IN_KERNEL.values()):
        yield OfferedWord("pid$target" if name == "pid" else name, "provider", _ABOUT.get(name, ""))


def facts() -> Iterator[OfferedWord]:
    """The functions that only a program in a kernel can call."""
    for name in sorted(OF_THE_KERNEL):
        one = FUNCTIONS.get(name)
        if one is not None and one.role in (Role.SUBROUTINE, Role.ACTION):
            kind = "subroutine" if one.role is Role.SUBROUTINE else "action"
            yield OfferedWord(name, kind, signature(one))


def is_provider(name: str) -> bool:
    return name in IN_KERNEL.values()


def fields(there: TracedMachine, given: tuple[str, ...]) -> Iterator[OfferedWord]:
    """The words for the field of a description that follows the fields ``given``, by the probes of that provider."""
    provider, module, function = (*given, "", "")[:3]
    place = len(given)
    wanted = Description(provider, module, function, "")
    for file, name in IN_KERNEL.items():
        if name == provider:
            for found in importlib.import_module(f"gilk.providers.{file}").probes(there, wanted):
                if _IN_FIELD.fullmatch(word := found.key[place]):
                    yield OfferedWord(word, _KINDS[place], found.key[1] if place == 2 else "")


def symbols(there: TracedMachine, module: str) -> Iterator[OfferedWord]:
    """The symbols of the kernel or of a module; of all for ''."""
    found = there.kernel.snapshot.symbols
    for owner, name in zip(found.owners, found.names, strict=True):
        if (not module or owner == module or (not owner and module in _CORE)) and _NAME.fullmatch(name):
            yield OfferedWord(name, "symbol", owner or "vmlinux")

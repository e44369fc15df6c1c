# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``proc``, as far as a process does it itself: it is seen in the system calls that it makes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gilk.arch.syscalls import NUMBERS
from gilk.lang.d.probes import Description
from gilk.providers import syscall
from gilk.providers.probe import ProcessProbe
from gilk.target.process import Process

_THREAD = 0x10000  # CLONE_THREAD, sched.h
_FLAGS, _FLAGS3 = f"regs->rdi & {_THREAD}", f"d_word(regs, regs->rdi, 8) & {_THREAD}"


@dataclass(frozen=True, slots=True)
class _Event:
    """Of a call, at its ``side``, where ``condition`` holds."""

    call: str
    side: str
    arguments: tuple[str, ...]
    condition: str = ""


def _creations(who: str) -> tuple[_Event, ...]:
    """``who``: C that tells the creator's return from that of what it has created."""
    rows = (("fork", "1"), ("vfork", "1"), ("clone", f"!({_FLAGS})"), ("clone3", f"!({_FLAGS3})"))
    return tuple(_Event(call, "return", ("regs->rax",), f"{who} && {test}") for call, test in rows)


_BORN = "(gd_s64)regs->rax > 0"
_EVENTS = {
    "exec": (_Event("execve", "entry", ("regs->rdi",)), _Event("execveat", "entry", ("regs->rsi",))),
    "exec-failure": tuple(_Event(call, "return", ("d_error(regs)",)) for call in ("execve", "execveat")),
    "exit": (_Event("exit_group", "entry", ("1",)),),
    "lwp-exit": (_Event("exit", "entry", ()),),
    "create": _creations(_BORN),
    "lwp-create": (
        _Event("clone", "return", ("regs->rax",), f"{_BORN} && {_FLAGS}"),
        _Event("clone3", "return", ("regs->rax",), f"{_BORN} && {_FLAGS3}"),
    ),
}


def probes(process: Process, description: Description) -> Iterator[ProcessProbe]:
    if not fnmatch.fnmatchcase("proc", description.provider or "*") or description.function:
        return
    if not fnmatch.fnmatchcase("vmlinux", description.module or "*"):
        return
    for name, events in _EVENTS.items():
        if fnmatch.fnmatchcase(name, description.name or "*"):
            made = syscall.calls(process)
            sites = (
                replace(site, arguments=event.arguments, condition=event.condition)
                for event in events
                for site in syscall.sites(made, NUMBERS[event.call], event.side)
            )
            yield ProcessProbe(("proc", "vmlinux", "", name), tuple(sites))

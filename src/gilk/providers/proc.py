# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``proc``, as far as a process does it itself: it is seen in the system calls that it makes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import replace

from gilk.arch.syscalls import NUMBERS
from gilk.lang.d.probes import Description
from gilk.providers import syscall
from gilk.providers.probe import ProcessProbe
from gilk.target.process import Process
from gilk.values import dataclass

_THREAD = 0x10000  # CLONE_THREAD, sched.h
_SIGNALS = 64  # _NSIG, signal.h
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


def _beginnings(who: str, number: str) -> tuple[_Event, ...]:
    """What a call returns to that has been made by it. Its flags may be gone by then: they lie in another's stack."""
    calls = ("fork", "vfork", "clone", "clone3")
    return tuple(_Event(call, "return", (number,), f"!regs->rax && {who}") for call in calls)


def _sending(call: str, signal: str, thread: str, process: str, arguments: str) -> _Event:
    """Of one that there is, and that may be sent: the kernel says so when signal 0 is asked for in its place."""
    given = (f"(gd_s32)regs->{thread}", f"(gd_s32)regs->{process}", f"(gd_s32)regs->{signal}")
    asked = f"!(gd_s32)host_syscall4({arguments}, 0)"
    return _Event(call, "entry", given, f"(gd_u32)regs->{signal} - 1U < {_SIGNALS}U && {asked}")


_KILL, _TGKILL = (NUMBERS[call] for call in ("kill", "tgkill"))
_TO_PROCESS = f"{_KILL}, regs->rdi, 0, 0"
_TO_THREAD = f"{_TGKILL}, regs->rdi, regs->rsi, 0"
_BORN = "(gd_s64)regs->rax > 0"
_EVENTS = {
    "exec": (_Event("execve", "entry", ("regs->rdi",)), _Event("execveat", "entry", ("regs->rsi",))),
    "exec-failure": tuple(_Event(call, "return", ("d_error(regs)",)) for call in ("execve", "execveat")),
    "exit": (_Event("exit_group", "entry", ("1",)),),
    "lwp-exit": (_Event("exit", "entry", ()),),
    "create": _creations(_BORN),
    "start": _beginnings("host_pid() == host_tid()", "host_pid()"),
    "lwp-start": _beginnings("host_pid() != host_tid()", "host_tid()"),
    "lwp-create": (
        _Event("clone", "return", ("regs->rax",), f"{_BORN} && {_FLAGS}"),
        _Event("clone3", "return", ("regs->rax",), f"{_BORN} && {_FLAGS3}"),
    ),
    "signal-send": (
        _sending("kill", "rsi", "rdi", "rdi", _TO_PROCESS),
        _sending("tkill", "rsi", "rdi", "rdi", f"{NUMBERS['tkill']}, regs->rdi, 0, 0"),
        _sending("tgkill", "rdx", "rsi", "rdi", _TO_THREAD),
        _sending("rt_sigqueueinfo", "rsi", "rdi", "rdi", _TO_PROCESS),
        _sending("rt_tgsigqueueinfo", "rdx", "rsi", "rdi", _TO_THREAD),
    ),
    "signal-clear": (_Event("rt_sigtimedwait", "return", ("regs->rax",), _BORN),),
}
#: Those that DTrace has, and the process itself does not show.
NOT_SEEN = {
    "exec-success": "a program that is executed has no probes of the one that executes it",
    "signal-discard": "it is the kernel that discards signals",
    "signal-handle": "where handlers are is not known beforehand; pid has a probe at each that you name",
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

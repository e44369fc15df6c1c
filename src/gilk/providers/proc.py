# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``proc`` of a process, as far as its events can be seen in the system calls that the process makes
itself."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import replace

from gilk.arch.syscalls import NUMBERS
from gilk.lang.d.probes import Description
from gilk.lang.ir import Ask, Binary, Constant, Convert, Expression, Given, Peek, Unary
from gilk.lang.machine import ProcessId, SyscallArg, SyscallError, SyscallResult, ThreadId
from gilk.lang.types import INT, INT64, UINT, UINT64, Integer
from gilk.providers import syscall
from gilk.providers.probe import ProcessProbe
from gilk.targets.base import Target
from gilk.values import dataclass

_SIGNALS = 64  # _NSIG, signal.h
_PID, _TID, _RESULT = ProcessId(), ThreadId(), SyscallResult()


@dataclass(frozen=True, slots=True)
class _Event:
    """An event: the entry or return (``side``) of a system call, when ``condition`` holds."""

    call: str
    side: str
    arguments: tuple[Expression, ...]
    condition: Expression | None = None

    def given(self, place: Given) -> Given:
        """The event's arguments and condition, at a place that makes the call."""
        return replace(place, arguments=self.arguments, condition=self.condition)


def _number(type_: Integer, value: int) -> Constant:
    return Constant(type_, value)


def _test(left: Expression, operator: str, right: Expression) -> Binary:
    return Binary(INT, operator, left, right)


def _not(value: Expression) -> Unary:
    return Unary(INT, "!", value)


def _makes_thread(flags: Expression) -> Binary:
    """Whether the flags of a clone(2) make a thread: CLONE_THREAD, sched.h."""
    return Binary(UINT64, "&", flags, _number(UINT64, 0x10000))


_FLAGS, _FLAGS3 = _makes_thread(SyscallArg(0)), _makes_thread(Peek(UINT64, SyscallArg(0)))
#: The call has made a process or thread, and this is its maker's return.
_BORN = _test(Convert(INT64, _RESULT), ">", _number(INT64, 0))


def _creations() -> tuple[_Event, ...]:
    rows = (("fork", _number(INT, 1)), ("vfork", _number(INT, 1)), ("clone", _not(_FLAGS)), ("clone3", _not(_FLAGS3)))
    return tuple(_Event(call, "return", (_RESULT,), _test(_BORN, "&&", test)) for call, test in rows)


def _beginnings(operator: str, number: Expression) -> tuple[_Event, ...]:
    """The first event of a process or thread: the call that made it returns in it, too.

    The flags of the call cannot be used there: they lie on the maker's stack, and may be gone by then.
    """
    begins = _test(_not(_RESULT), "&&", _test(_PID, operator, _TID))
    return tuple(_Event(call, "return", (number,), begins) for call in ("fork", "vfork", "clone", "clone3"))


def _sending(call: str, signal: int, thread: int, process: int, asked: str) -> _Event:
    """The sending of a signal that exists and may be sent, which the kernel is asked by sending signal 0 first.

    ``signal``, ``thread``, ``process``: the numbers of these arguments. ``asked``: the call that sends signal 0.
    """
    given = tuple(Convert(INT, SyscallArg(number)) for number in (thread, process, signal))
    whom = (SyscallArg(0), SyscallArg(1)) if asked == "tgkill" else (SyscallArg(0),)
    allowed = _not(Ask(NUMBERS[asked], (*whom, _number(INT, 0))))
    before = Binary(UINT, "-", Convert(UINT, SyscallArg(signal)), _number(UINT, 1))
    return _Event(call, "entry", given, _test(_test(before, "<", _number(UINT, _SIGNALS)), "&&", allowed))


_EVENTS = {
    "exec": (_Event("execve", "entry", (SyscallArg(0),)), _Event("execveat", "entry", (SyscallArg(1),))),
    "exec-failure": tuple(_Event(call, "return", (SyscallError(),)) for call in ("execve", "execveat")),
    "exit": (_Event("exit_group", "entry", (_number(INT, 1),)),),
    "lwp-exit": (_Event("exit", "entry", ()),),
    "create": _creations(),
    "start": _beginnings("==", _PID),
    "lwp-start": _beginnings("!=", _TID),
    "lwp-create": (
        _Event("clone", "return", (_RESULT,), _test(_BORN, "&&", _FLAGS)),
        _Event("clone3", "return", (_RESULT,), _test(_BORN, "&&", _FLAGS3)),
    ),
    "signal-send": (
        _sending("kill", 1, 0, 0, "kill"),
        _sending("tkill", 1, 0, 0, "tkill"),
        _sending("tgkill", 2, 1, 0, "tgkill"),
        _sending("rt_sigqueueinfo", 1, 0, 0, "kill"),
        _sending("rt_tgsigqueueinfo", 2, 1, 0, "tgkill"),
    ),
    "signal-clear": (_Event("rt_sigtimedwait", "return", (_RESULT,), _BORN),),
}
#: Probes that DTrace has, and that a process's own system calls do not show.
NOT_SEEN = {
    "exec-success": "a program that is executed has no probes of the one that executes it",
    "signal-discard": "it is the kernel that discards signals",
    "signal-handle": "where handlers are is not known beforehand; pid has a probe at each that you name",
}


def probes(process: Target, description: Description) -> Iterator[ProcessProbe]:
    if not fnmatch.fnmatchcase("proc", description.provider or "*") or description.function:
        return
    if not fnmatch.fnmatchcase("vmlinux", description.module or "*"):
        return
    for name, events in _EVENTS.items():
        if fnmatch.fnmatchcase(name, description.name or "*"):
            made = syscall.calls(process)
            sites = (
                replace(site, given=event.given(site.given))
                for event in events
                for site in syscall.sites(made, NUMBERS[event.call], event.side)
            )
            yield ProcessProbe(("proc", "vmlinux", "", name), tuple(sites))

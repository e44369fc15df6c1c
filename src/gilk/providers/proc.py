# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``proc``, as far as a process does it itself: it is seen in the system calls that it makes."""

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
    """An event of a system call, at its ``side``, where ``condition`` holds."""

    call: str
    side: str
    arguments: tuple[Expression, ...]
    condition: Expression | None = None

    def given(self, place: Given) -> Given:
        """The event's arguments and its condition at a place of that call."""
        return replace(place, arguments=self.arguments, condition=self.condition)


def _number(type_: Integer, value: int) -> Constant:
    return Constant(type_, value)


def _test(left: Expression, operator: str, right: Expression) -> Binary:
    return Binary(INT, operator, left, right)


def _not(value: Expression) -> Unary:
    return Unary(INT, "!", value)


def _makes_thread(flags: Expression) -> Binary:
    """By the flags of clone(2): CLONE_THREAD, sched.h."""
    return Binary(UINT64, "&", flags, _number(UINT64, 0x10000))


_FLAGS, _FLAGS3 = _makes_thread(SyscallArg(0)), _makes_thread(Peek(UINT64, SyscallArg(0)))
#: The call has made something, and this is its maker's return.
_BORN = _test(Convert(INT64, _RESULT), ">", _number(INT64, 0))


def _creations() -> tuple[_Event, ...]:
    rows = (("fork", _number(INT, 1)), ("vfork", _number(INT, 1)), ("clone", _not(_FLAGS)), ("clone3", _not(_FLAGS3)))
    return tuple(_Event(call, "return", (_RESULT,), _test(_BORN, "&&", test)) for call, test in rows)


def _beginnings(operator: str, number: Expression) -> tuple[_Event, ...]:
    """The first events of a process or thread: the call that made it returns there too.

    The flags of the call may be gone by then: they lie in the maker's stack.
    """
    begins = _test(_not(_RESULT), "&&", _test(_PID, operator, _TID))
    return tuple(_Event(call, "return", (number,), begins) for call in ("fork", "vfork", "clone", "clone3"))


def _sending(call: str, signal: int, thread: int, process: int, asked: str) -> _Event:
    """The sending of a signal that there is, and that may be sent: the kernel says so of signal 0 in its place.

    ``signal``, ``thread``, ``process``: which arguments they are. ``asked``: the call that asks for it.
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
#: Probes that DTrace has, and the process itself does not show.
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

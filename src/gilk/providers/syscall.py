# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``syscall``: system calls of the process, at the instructions in its code that make them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from gilk.analysis.system_calls import SystemCall, system_calls
from gilk.arch.syscalls import NAMES, NUMBERS
from gilk.errors import TargetError
from gilk.lang.d.probes import Description, Key
from gilk.lang.ir import Given
from gilk.lang.machine import SyscallArg, SyscallError, SyscallNumber, SyscallResult
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.splice.points import Point
from gilk.targets.base import Loaded, Target

_ENTRY = Given(tuple(SyscallArg(number) for number in range(6)))
_RETURN = Given((SyscallResult(), SyscallResult()), error=SyscallError())
#: By whether the call has returned, and whether several calls may be made at the instruction.
_GIVEN = {
    (False, False): _ENTRY,
    (False, True): replace(_ENTRY, select=SyscallNumber(left=False)),
    (True, False): _RETURN,
    (True, True): replace(_RETURN, select=SyscallNumber(left=True)),
}
_MODULE = "vmlinux"
#: System calls that never return. The last one is made by the code that a signal's handler returns to, by which
#: debuggers and unwinders recognise such a frame: it is left as it is, and has no probe.
_NO_RETURN = frozenset((NUMBERS["exit"], NUMBERS["exit_group"]))
_SIGRETURN = NUMBERS["rt_sigreturn"]
#: The kernel's own names for some system calls, which DTrace's probes also have.
_OTHER_NAMES = {
    "newstat": "stat", "newfstat": "fstat", "newlstat": "lstat", "newuname": "uname", "sendfile64": "sendfile",
}  # fmt: skip

#: Places that make system calls, each with the points before and after the instruction.
Made = dict[int | None, list[tuple[Loaded, SystemCall, Point, Point]]]


def probes(process: Target, description: Description) -> Iterator[ProcessProbe]:
    for key in names(description):
        _, _, name, side = key
        yield ProcessProbe(key, tuple(sites(calls(process), NUMBERS[name], side)))


def names(description: Description) -> Iterator[Key]:
    """The names of the probes that the description matches, which are the same in all processes."""
    provider, module = description.provider or "*", description.module or "*"
    if not (fnmatch.fnmatchcase("syscall", provider) and fnmatch.fnmatchcase(_MODULE, module)):
        return
    sides = [side for side in ("entry", "return") if fnmatch.fnmatchcase(side, description.name or "*")]
    for name in NAMES.values():
        if is_meant(name, description.function or "*"):
            yield from (("syscall", _MODULE, name, side) for side in sides)


def is_meant(name: str, glob: str) -> bool:
    """Whether the glob matches the name of a system call, or is the kernel's own name for it."""
    return name != "rt_sigreturn" and (fnmatch.fnmatchcase(name, glob) or _OTHER_NAMES.get(glob) == name)


def sites(made: Made, number: int, side: str) -> Iterator[ProbeSite]:
    """The sites where system call ``number`` is made, or may be."""
    leaves = side == "return"
    if leaves and number in _NO_RETURN:
        return
    for loaded, call, entry, back in (*made.get(number, ()), *made.get(None, ())):
        point, given = back if leaves else entry, _GIVEN[leaves, call.number is None]
        yield ProbeSite(loaded, call.function.start, point, given, value=number)


def _points(loaded: Loaded, call: SystemCall) -> tuple[Point, Point]:
    where = f"+{call.address - call.function.start:#x}"
    entry = Point(loaded.name, call.function.name, where, call.address, False)
    return entry, replace(entry, after=True)


@lru_cache(maxsize=4)
def calls(process: Target) -> Made:
    """All places that make system calls in the images that are mapped now, by number, None where it is not known.
    Raises TargetError `seccomp-blocks-syscall-probes`."""
    if process.may_be_killed():
        raise TargetError(
            "seccomp-blocks-syscall-probes",
            f"process {process.pid} has a seccomp filter of its own, which may kill it for system calls made elsewhere",
            "its other probes can be enabled",
        )
    found: Made = {}
    for loaded in process.loaded():
        for call in system_calls(process.analysis(loaded)):
            if call.number != _SIGRETURN:
                found.setdefault(call.number, []).append((loaded, call, *_points(loaded, call)))
    return found

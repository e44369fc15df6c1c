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
from gilk.lang.d.probes import Description
from gilk.lang.ir import Given
from gilk.lang.machine import SyscallArg, SyscallError, SyscallNumber, SyscallResult
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.splice.points import Point
from gilk.targets.base import Loaded, Target

_ENTRY = Given(tuple(SyscallArg(number) for number in range(6)))
_RETURN = Given((SyscallResult(), SyscallResult()), error=SyscallError())
#: By whether the call is over, and whether one of several is made there.
_GIVEN = {
    (False, False): _ENTRY,
    (False, True): replace(_ENTRY, select=SyscallNumber(left=False)),
    (True, False): _RETURN,
    (True, True): replace(_RETURN, select=SyscallNumber(left=True)),
}
_MODULE = "vmlinux"
#: Nothing comes back from these. The last one is made by the code that a signal's handler returns to, by which
#: debuggers and unwinders know such a frame: it is left as it is, and has no probe.
_NO_RETURN = frozenset((NUMBERS["exit"], NUMBERS["exit_group"]))
_SIGRETURN = NUMBERS["rt_sigreturn"]
#: System calls by the names of the kernel's own functions, which are also those of DTrace's probes.
_OTHER_NAMES = {
    "newstat": "stat", "newfstat": "fstat", "newlstat": "lstat", "newuname": "uname", "sendfile64": "sendfile",
}  # fmt: skip

Made = dict[int | None, list[tuple[Loaded, SystemCall]]]


def probes(process: Target, description: Description) -> Iterator[ProcessProbe]:
    provider, module = description.provider or "*", description.module or "*"
    if not (fnmatch.fnmatchcase("syscall", provider) and fnmatch.fnmatchcase(_MODULE, module)):
        return
    sides = [side for side in ("entry", "return") if fnmatch.fnmatchcase(side, description.name or "*")]
    numbers = [number for number, name in NAMES.items() if is_meant(name, description.function or "*")]
    if not sides or not numbers:
        return
    made = calls(process)
    for number in numbers:
        for side in sides:
            yield ProcessProbe(("syscall", _MODULE, NAMES[number], side), tuple(sites(made, number, side)))


def is_meant(name: str, glob: str) -> bool:
    """Whether the glob is about the system call of that name, or about the kernel's own name for it."""
    return name != "rt_sigreturn" and (fnmatch.fnmatchcase(name, glob) or _OTHER_NAMES.get(glob) == name)


def sites(made: Made, number: int, side: str) -> Iterator[ProbeSite]:
    """Where call ``number`` is made, or may be."""
    leaves = side == "return"
    if leaves and number in _NO_RETURN:
        return
    for loaded, call in (*made.get(number, ()), *made.get(None, ())):
        offset = call.address - call.function.start
        point = Point(loaded.name, call.function.name, f"+{offset:#x}", call.address, leaves)
        yield ProbeSite(loaded, call.function.start, point, _GIVEN[leaves, call.number is None], value=number)


@lru_cache(maxsize=4)
def calls(process: Target) -> Made:
    """By number, all that the images make which are mapped now. Raises TargetError `seccomp-blocks-syscall-probes`."""
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
                found.setdefault(call.number, []).append((loaded, call))
    return found

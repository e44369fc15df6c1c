# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``syscall`` of a kernel: all system calls of all processes pass through two of its functions."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from gilk.arch.syscalls import NAMES
from gilk.image.model import FunctionSpan
from gilk.lang.d.probes import Description
from gilk.providers.kernel.probe import HasKernel, KernelProbe
from gilk.providers.syscall import is_meant

#: The function at whose entry the probe of each name fires.
WAYS = {"entry": "x64_sys_call", "return": "syscall_exit_to_user_mode_prepare"}
_MODULE = "vmlinux"
#: System calls that never return.
_NO_RETURN = frozenset(("exit", "exit_group"))


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes that the description means; none where the kernel has no such function."""
    provider, module = description.provider or "*", description.module or "*"
    if description.number or not fnmatch.fnmatchcase("syscall", provider) or not fnmatch.fnmatchcase(_MODULE, module):
        return
    sides = [side for side in WAYS if fnmatch.fnmatchcase(side, description.name or "*")]
    numbers = [number for number, name in NAMES.items() if is_meant(name, description.function or "*")]
    if not sides or not numbers:
        return
    spans = {side: _function(target, WAYS[side]) for side in sides}
    for number in numbers:
        for side in sides:
            span = spans[side]
            if span is not None and not (side == "return" and NAMES[number] in _NO_RETURN):
                yield KernelProbe(("syscall", _MODULE, NAMES[number], side), span, "entry", number)


def missing(target: HasKernel, description: Description) -> str:
    """The reason why a description means no probes; "" if the kernel has what all of them need."""
    ways = (way for side, way in WAYS.items() if fnmatch.fnmatchcase(side, description.name or "*"))
    lacking = next((way for way in ways if _function(target, way) is None), "")
    if not lacking:
        return ""
    return f"this kernel has no function {lacking}, which all system calls pass: use fbt::__x64_sys_NAME instead"


def _function(target: HasKernel, name: str) -> FunctionSpan | None:
    return next((span for span in target.kernel.image.spans if span.name == name), None)

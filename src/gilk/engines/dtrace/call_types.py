# SPDX-License-Identifier: LGPL-2.1-or-later
"""The types of system calls' arguments, from the format files of a kernel's events: BTF has only the registers."""

from __future__ import annotations

from gilk.providers.kernel.event_format import event_format
from gilk.providers.kernel.probe import ReadsFiles

_BEFORE = 1  # the number of fields before the arguments: the call's number
#: The kernel's names of calls that have other names in gilk.
_NAMES = {"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname", "sendfile": "sendfile64"}


def declared(link: ReadsFiles, name: str) -> list[str] | None:
    """The types of a system call's arguments, as C writes them; None if the kernel does not tell."""
    known = event_format(link, f"syscalls/sys_enter_{_NAMES.get(name, name)}")
    return None if known is None else [field.type for field in known.fields[_BEFORE:]]

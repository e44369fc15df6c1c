# SPDX-License-Identifier: LGPL-2.1-or-later
"""The types of system calls' arguments, from the format files of a kernel's events: BTF has only the registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gilk.errors import TargetError
from gilk.providers.kernel.probe import ReadsFiles

_FORMAT = "/sys/kernel/tracing/events/syscalls/sys_enter_{}/format"
_FIELD = re.compile(r"^\tfield:([^;\[]+?)(\w+);", re.MULTILINE)
_COMMON = 5  # the number of fields before the arguments: those of all events, and the call's number
#: The kernel's names of calls that have other names in gilk.
_NAMES = {"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname", "sendfile": "sendfile64"}
_QUALIFIERS = frozenset(("const", "volatile", "restrict", "__user", "__kernel"))


def declared(link: ReadsFiles, name: str) -> list[str] | None:
    """The types of a system call's arguments, as C writes them; None if the kernel does not tell."""
    try:
        text = link.read_file(_FORMAT.format(_NAMES.get(name, name))).decode(errors="replace")
    except (OSError, TargetError):
        return None
    return list(_types(text))


def _types(text: str) -> Iterator[str]:
    for type_, _ in _FIELD.findall(text)[_COMMON:]:
        words = type_.replace("*", " * ").split()
        yield " ".join(word for word in words if word not in _QUALIFIERS)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads small text files in which a kernel describes itself, and its notes."""

from __future__ import annotations

import struct
from typing import Final

from gilk.errors import ImageError
from gilk.values import dataclass

_BUILD_ID: Final = 3  # NT_GNU_BUILD_ID


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A line of /proc/modules. ``size`` is in bytes, ``address`` is that of the module's text."""

    name: str
    size: int
    live: bool
    address: int


def modules(data: bytes) -> tuple[LoadedModule, ...]:
    """The modules in the content of /proc/modules. Raises ImageError `kernel-listing`."""
    found = []
    line = ""
    try:
        for line in data.decode().splitlines():
            name, size, _, _, state, address = line.split()[:6]
            found.append(LoadedModule(name, int(size), state == "Live", int(address, 16)))
    except ValueError:
        raise ImageError("kernel-listing", f"a line of /proc/modules is not as expected: {line!r}") from None
    return tuple(found)


def blacklist(data: bytes) -> tuple[tuple[int, int], ...]:
    """The ranges [start, end) in the content of kprobes/blacklist, sorted. Raises ImageError `kernel-listing`."""
    found = []
    line = ""
    try:
        for line in data.decode().splitlines():
            low, high = line.split()[0].split("-")
            found.append((int(low, 16), int(high, 16)))
    except (ValueError, IndexError):
        raise ImageError("kernel-listing", f"a line of kprobes/blacklist is not as expected: {line!r}") from None
    if found and not any(low for low, _ in found):
        raise ImageError("kernel-listing", "kprobes/blacklist shows no addresses", "be root")
    return tuple(sorted(found))


def probes(data: bytes) -> tuple[int, ...]:
    """The addresses in the content of kprobes/list, sorted. Raises ImageError `kernel-listing`."""
    try:
        return tuple(sorted({int(line.split()[0], 16) for line in data.decode().splitlines()}))
    except (ValueError, IndexError):
        raise ImageError("kernel-listing", "kprobes/list is not as expected") from None


def build_id(notes: bytes) -> str:
    """The build id in the content of /sys/kernel/notes, in hex; '' if there is none."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        content = name + (name_size + 3 & -4)
        if kind == _BUILD_ID and notes[name : name + name_size] == b"GNU\0":
            return notes[content : content + size].hex()
        at = content + (size + 3 & -4)
    return ""

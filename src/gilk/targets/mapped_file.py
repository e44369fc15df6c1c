# SPDX-License-Identifier: LGPL-2.1-or-later
"""Opens the very file that a process has mapped, whatever goes by its name here.

The process chooses which file it maps and how that is called. In a mount namespace of its own, any path may be that of
a file of its own, with any inode number; so the file system is compared as well. Only regular files are opened: opening
others may have effects (a watchdog's device is set off by it).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from gilk.targets.alive import thread_with_memory
from gilk.targets.maps import Mapping, read_maps
from gilk.targets.program import path_there


def open_mapped(pid: int, mapping: Mapping, main: bool) -> tuple[Path, int] | None:
    """A path by which the mapped file can be opened, and a descriptor, which the caller closes; None when it cannot be
    opened.

    ``main``: the mapping is the program's. The path is the file's own if that leads to it, and else one below
    /proc/PID.
    """
    # Root can open this link, which leads to the file, whatever has become of its name.
    tid = thread_with_memory(pid)
    link = Path(f"/proc/{tid}/map_files/{mapping.start:x}-{mapping.end:x}")
    names = list(_names(tid, mapping, main))
    for is_it, paths in ((_by_number, names), (_by_mapping, names), (_unasked, [link])):
        for path in paths:
            with suppress(OSError, ValueError):
                descriptor = _opened(path, partial(is_it, mapping))
                if descriptor >= 0:
                    return path, descriptor
    return None


def _names(tid: int, mapping: Mapping, main: bool) -> Iterator[Path]:
    path = path_there(mapping.path)
    yield Path(path)
    yield Path(f"/proc/{tid}/root{path}")
    if main:
        yield Path(f"/proc/{tid}/exe")


def _opened(path: Path, is_it: Callable[[int], bool]) -> int:
    """A descriptor of the file at ``path``; -1 if it is not regular or ``is_it`` denies it. Raises OSError."""
    looked = os.open(path, os.O_PATH | os.O_CLOEXEC)  # O_PATH has no effect on the file, whatever it is
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode) or not is_it(looked):
            return -1
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(looked)


def _unasked(mapping: Mapping, looked: int) -> bool:
    return True


def _by_number(mapping: Mapping, looked: int) -> bool:
    file = os.fstat(looked)
    return (file.st_dev, file.st_ino) == (mapping.device, mapping.inode)


def _by_mapping(mapping: Mapping, looked: int) -> bool:
    """Whether the file is the mapped one, where stat(2) names another file system than mappings do (btrfs, overlayfs):
    the file is mapped here, too, and both mappings are compared."""
    if os.fstat(looked).st_ino != mapping.inode:
        return False
    with (
        open(f"/proc/self/fd/{looked}", "rb", buffering=0) as file,
        mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_COPY) as memory,
    ):
        held = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(held)
        del held
        ours = next((m for m in read_maps(os.getpid()) if m.start <= address < m.end), None)
        return ours is not None and (ours.device, ours.inode) == (mapping.device, mapping.inode)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bounds of mappings in a process, by address.

Since Linux 6.11 the kernel can be asked about one address (PROCMAP_QUERY, linux/fs.h); earlier kernels can only write
down all mappings, which takes as long as everything else that is done while threads stand still.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gilk.targets.maps import open_maps, parse_maps, whole
from gilk.values import dataclass

#: A function from an address to the start and the end of the mapping there; None where nothing is mapped.
Bounds = Callable[[int], tuple[int, int] | None]


class _Query(ctypes.Structure):
    """struct procmap_query."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("size", "query_flags", "query_addr", "start", "end", "flags")),
        *((name, ctypes.c_uint64) for name in ("page_size", "offset", "inode")),
        *((name, ctypes.c_uint32) for name in ("major", "minor", "name_size", "build_id_size")),
        *((name, ctypes.c_uint64) for name in ("name", "build_id")),
    ]


@dataclass(frozen=True, slots=True)
class Backing:
    """A mapping, and the file that is mapped: ``device`` and ``inode`` as mappings name them, ``offset`` in the file
    where the mapping begins."""

    start: int
    end: int
    offset: int
    device: int
    inode: int


_READ_AND_WRITE = 3
PROCMAP_QUERY = _READ_AND_WRITE << 30 | ctypes.sizeof(_Query) << 16 | ord("f") << 8 | 17


@contextmanager
def bounds_in(pid: int) -> Iterator[Bounds]:
    """A context that yields the bounds, valid while no thread of the process runs. Raises TargetError
    `no-such-process`, `no-permission`."""
    with open_maps(pid) as file:
        try:
            _ask(file.fileno(), 0)
        except OSError:
            ranges = [(mapping.start, mapping.end) for mapping in parse_maps(whole(file))]
            yield lambda address: next((each for each in ranges if each[0] <= address < each[1]), None)
        else:
            yield lambda address: _ask(file.fileno(), address)


def backing_at(pid: int, address: int) -> Backing | None:
    """The mapping at an address with its file; None where nothing is mapped. Raises as bounds_in() does."""
    with open_maps(pid) as file:
        try:
            found = _query(file.fileno(), address)
        except OSError:
            rows = (_backing(line.split(maxsplit=5)) for line in whole(file).split(b"\n") if line)
            return next((row for row in rows if row.start <= address < row.end), None)
    if found is None:
        return None
    return Backing(found.start, found.end, found.offset, os.makedev(found.major, found.minor), found.inode)


def _backing(fields: list[bytes]) -> Backing:
    """The backing that a line of /proc/PID/maps (proc(5)), split into fields, describes."""
    start, end = (int(part, 16) for part in fields[0].split(b"-"))
    major, minor = (int(part, 16) for part in fields[3].split(b":"))
    return Backing(start, end, int(fields[2], 16), os.makedev(major, minor), int(fields[4]))


def _ask(fd: int, address: int) -> tuple[int, int] | None:
    """The start and end of the mapping at an address; None where nothing is mapped. Raises OSError where the kernel has
    no PROCMAP_QUERY."""
    found = _query(fd, address)
    return None if found is None else (found.start, found.end)


def _query(fd: int, address: int) -> _Query | None:
    """The kernel's answer about an address; None where nothing is mapped. Raises OSError where the kernel has no
    PROCMAP_QUERY."""
    query = _Query(size=ctypes.sizeof(_Query), query_addr=address)
    try:
        fcntl.ioctl(fd, PROCMAP_QUERY, query)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return None
        raise
    return query

# SPDX-License-Identifier: LGPL-2.1-or-later
"""From where to where something is mapped in a process.

Since Linux 6.11 the kernel can be asked about one address (PROCMAP_QUERY, linux/fs.h); before, it has to write down
all mappings, which takes as long as all else that is done while threads stand still.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gilk.target.maps import open_maps, parse_maps, whole

#: The start and the end of what is mapped at an address; None where nothing is.
Bounds = Callable[[int], tuple[int, int] | None]


class _Query(ctypes.Structure):
    """struct procmap_query."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("size", "query_flags", "query_addr", "start", "end", "flags")),
        *((name, ctypes.c_uint64) for name in ("page_size", "offset", "inode")),
        *((name, ctypes.c_uint32) for name in ("major", "minor", "name_size", "build_id_size")),
        *((name, ctypes.c_uint64) for name in ("name", "build_id")),
    ]


_READ_AND_WRITE = 3
PROCMAP_QUERY = _READ_AND_WRITE << 30 | ctypes.sizeof(_Query) << 16 | ord("f") << 8 | 17


@contextmanager
def bounds_in(pid: int) -> Iterator[Bounds]:
    """As they are while nothing of the process runs. Raises TargetError `no-such-process`, `no-permission`."""
    with open_maps(pid) as file:
        try:
            _ask(file.fileno(), 0)
        except OSError:
            ranges = [(mapping.start, mapping.end) for mapping in parse_maps(whole(file))]
            yield lambda address: next((each for each in ranges if each[0] <= address < each[1]), None)
        else:
            yield lambda address: _ask(file.fileno(), address)


def _ask(fd: int, address: int) -> tuple[int, int] | None:
    """Raises OSError where the kernel cannot be asked."""
    query = _Query(size=ctypes.sizeof(_Query), query_addr=address)
    try:
        fcntl.ioctl(fd, PROCMAP_QUERY, query)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return None
        raise
    return query.start, query.end

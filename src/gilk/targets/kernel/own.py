# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel that this very process runs on, by what it offers to root. Everything raises OSError.

It is a part of the relay as well, so it needs nothing but the standard library and other parts.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import struct
from collections.abc import Iterable, Iterator

from gilk.targets.kernel.messages import LARGEST_ANSWER

DRIVER = "/dev/ilk"
KCORE = "/proc/kcore"
PIECE = 1 << 20  # bytes read at once
#: A user's word for the machine that this runs on.
HERE = "here"


def is_loaded() -> bool:
    """Whether the driver is in this machine's kernel."""
    return os.path.exists(DRIVER)


class OwnKernel:
    """Holds /dev/ilk open."""

    def __init__(self) -> None:
        self._driver = -1
        self._maps: list[mmap.mmap] = []

    def read_file(self, path: str) -> Iterator[bytes]:
        """Pieces of a regular file, whose size need not be known beforehand. Its name may have come from a program, so
        nothing else is opened: that might wait, act, or never end; and at most LARGEST_ANSWER is read of it. OSError
        EFBIG where that is not all."""
        descriptor, left = _regular(path), LARGEST_ANSWER
        try:
            if os.fstat(descriptor).st_size > left:
                raise too_large(path)
            while piece := os.read(descriptor, PIECE):
                left -= len(piece)
                if left < 0:
                    raise too_large(path)
                yield piece
        finally:
            os.close(descriptor)

    def read_core(self, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Pieces of memory, the ranges one after another. EFAULT for what /proc/kcore does not have."""
        descriptor = os.open(KCORE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            segments = core_segments(descriptor)
            for address, size in ranges:
                place = locate(segments, address, size)
                for start in range(0, size, PIECE):
                    yield _read_at(descriptor, place + start, min(PIECE, size - start))
        finally:
            os.close(descriptor)

    def open_driver(self) -> None:
        """Again is nothing new."""
        if self._driver < 0:
            self._driver = os.open(DRIVER, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)

    def control(self, request: int, payload: bytes) -> bytes:
        buffer = bytearray(payload)
        fcntl.ioctl(self._open_driver(), request, buffer, True)
        return bytes(buffer)

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        """The same, with a descriptor of a regular file at that place of the buffer, an i32."""
        descriptor = _regular(path)
        try:
            lent = payload[:place] + struct.pack("<i", descriptor) + payload[place + 4 :]
            return self.control(request, lent)
        finally:
            os.close(descriptor)

    def drain(self, most: int) -> bytes:
        try:
            return os.read(self._open_driver(), most)
        except BlockingIOError:
            return b""

    def map(self, offset: int, size: int, write: bool) -> mmap.mmap:
        """Memory of the driver. Nothing that was made of it may be left when the driver is closed."""
        may = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        made = mmap.mmap(self._open_driver(), size, mmap.MAP_SHARED, may, offset=offset)
        self._maps.append(made)
        return made

    def fileno(self) -> int:
        """The driver's file, to wait on with select(). EBADF unless it is open."""
        return self._open_driver()

    def _open_driver(self) -> int:
        if self._driver < 0:
            raise OSError(errno.EBADF, f"{DRIVER} is not open")
        return self._driver

    def close(self) -> None:
        while self._maps:  # each keeps the driver open
            self._maps.pop().close()
        if self._driver >= 0:
            os.close(self._driver)
            self._driver = -1


def too_large(what: str) -> OSError:
    """The error of a file, or of output, that is larger than LARGEST_ANSWER."""
    return OSError(errno.EFBIG, f"{what} is larger than {LARGEST_ANSWER >> 20} MiB")


def _regular(path: str) -> int:
    """A descriptor to read a regular file by; nothing else is opened."""
    looked = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(looked)


def core_segments(descriptor: int) -> list[tuple[int, int, int]]:
    """(address, size, place in the file) of /proc/kcore's LOAD segments: ELF-64 program headers."""
    header = os.pread(descriptor, 64, 0)
    table, entry, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
    raw = os.pread(descriptor, entry * count, table)
    rows = [struct.unpack_from("<IIQQQQ", raw, start) for start in range(0, len(raw), entry)]
    return [(address, size, place) for kind, _, place, address, _, size in rows if kind == 1]


def locate(segments: list[tuple[int, int, int]], address: int, size: int) -> int:
    """The offset of a range in the file; it has to lie in one segment. Raises OSError EFAULT."""
    for start, length, place in segments:
        if start <= address and address + size <= start + length:
            return place + address - start
    raise OSError(errno.EFAULT, f"not in {KCORE}: {size} bytes at {address:#x}")


def _read_at(descriptor: int, place: int, size: int) -> bytes:
    data = os.pread(descriptor, size, place)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), place + len(data))
        if not more:
            raise OSError(errno.EIO, f"{KCORE} ends early")
        data += more
    return data

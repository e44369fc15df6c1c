# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reaches the kernel that this very process runs on, as root. Everything raises OSError.

This is a part of the relay, too, so it needs nothing but the standard library and other parts of the relay.
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
#: The word by which users name the machine that this runs on.
HERE = "here"


def is_loaded() -> bool:
    """Whether the driver is loaded in this machine's kernel."""
    return os.path.exists(DRIVER)


class OwnKernel:
    """The kernel of this machine. Holds /dev/ilk open, once it is opened."""

    def __init__(self) -> None:
        self._driver = -1
        self._maps: list[mmap.mmap] = []

    def read_file(self, path: str) -> Iterator[bytes]:
        """The content of a regular file, in pieces; its size need not be known beforehand. Its name may have come from
        a program, so no other kind of file is opened, which might wait, act, or never end; and at most LARGEST_ANSWER
        bytes are read. Raises OSError EFBIG if the file is longer."""
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
        """The contents of the ranges, one after another, in pieces. Raises OSError EFAULT for memory that /proc/kcore
        does not have."""
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
        """Open /dev/ilk, unless it is open."""
        if self._driver < 0:
            self._driver = os.open(DRIVER, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)

    def control(self, request: int, payload: bytes) -> bytes:
        buffer = bytearray(payload)
        fcntl.ioctl(self._open_driver(), request, buffer, True)
        return bytes(buffer)

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        """Make an ioctl as control() does, with a descriptor of a regular file as an i32 at offset ``place`` of the
        buffer."""
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
        """Map memory of the driver. No view of it may be left when the driver is closed."""
        may = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        made = mmap.mmap(self._open_driver(), size, mmap.MAP_SHARED, may, offset=offset)
        self._maps.append(made)
        return made

    def fileno(self) -> int:
        """The driver's file, for select() to wait on. Raises OSError EBADF unless it is open."""
        return self._open_driver()

    def _open_driver(self) -> int:
        if self._driver < 0:
            raise OSError(errno.EBADF, f"{DRIVER} is not open")
        return self._driver

    def close(self) -> None:
        while self._maps:  # each map keeps the driver open
            self._maps.pop().close()
        if self._driver >= 0:
            os.close(self._driver)
            self._driver = -1


def too_large(what: str) -> OSError:
    """The error about a file, or output, that is longer than LARGEST_ANSWER."""
    return OSError(errno.EFBIG, f"{what} is larger than {LARGEST_ANSWER >> 20} MiB")


def _regular(path: str) -> int:
    """A descriptor for reading a regular file; other kinds of files are refused without being opened."""
    looked = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(looked)


def core_segments(descriptor: int) -> list[tuple[int, int, int]]:
    """(address, size, offset in the file) of /proc/kcore's LOAD segments: ELF-64 program headers."""
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

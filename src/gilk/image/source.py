# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random access, with checks of bounds, to the bytes of a file or of a region of memory."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gilk.digest import state_of
from gilk.errors import ImageError
from gilk.values import dataclass

LARGEST_READ = 0x7FFFF000  # in bytes: the most that one read(2) returns, and the reach of the small code model
LARGEST_FILE = 1 << 36  # in bytes; a sparse file can claim any size
_TICK = 2_000_000_000  # in ns: longer than a tick of any file system's clock
LARGEST_WHOLE = 1 << 32  # in bytes: the largest file that is read from end to end


@dataclass(frozen=True, slots=True)
class ByteSource:
    """``size`` bytes that ``fetch(offset, size)`` returns; ``path`` is for messages. ``state`` is the file's
    (state_of), None if there is no file, or if it was changed so recently that it may change again within a tick of the
    clock.
    """

    path: Path
    size: int
    fetch: Callable[[int, int], bytes]
    state: tuple[int, ...] | None = None

    def read(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes at ``offset``. Raises ImageError elf-truncated or elf-malformed."""
        if size > LARGEST_READ:
            raise ImageError("elf-malformed", f"{self.path}: {size:#x} bytes in one part are more than gilk reads")
        if offset + size > self.size:
            raise ImageError("elf-truncated", f"{self.path}: ends at {self.size:#x}, but {offset + size:#x} is needed")
        data = self.fetch(offset, size)
        if len(data) != size:
            raise ImageError("elf-truncated", f"{self.path}: shrank while it was read")
        return data

    def chunks(self, size: int = 1 << 20) -> Iterator[bytes]:
        """The whole content in pieces of ``size`` bytes. Raises ImageError elf-malformed if reading it would take
        minutes.
        """
        if self.size > LARGEST_WHOLE:
            raise ImageError("elf-malformed", f"{self.path}: {self.size:#x} bytes, too large without a build id")
        for offset in range(0, self.size, size):
            yield self.read(offset, min(size, self.size - offset))


def from_bytes(data: bytes, path: Path) -> ByteSource:
    return ByteSource(path, len(data), lambda offset, size: data[offset : offset + size])


@contextmanager
def open_source(path: Path) -> Iterator[ByteSource]:
    """The contents of a regular file, which is open for the ``with`` block. Raises as open_file does."""
    descriptor = open_file(path)
    try:
        yield source_of(descriptor, path)
    finally:
        os.close(descriptor)


def open_file(path: Path) -> int:
    """A descriptor of a regular file, which the caller must close.

    Raises ImageError no-such-file, no-permission or not-elf (not a regular file).
    """
    try:
        return _open(path)
    except PermissionError as error:
        raise ImageError("no-permission", f"{path}: {error.strerror}") from error
    except OSError as error:
        raise ImageError("no-such-file", f"{path}: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ImageError("no-such-file", f"{str(path)!r}: {error}") from error


def _open(path: Path) -> int:
    """A descriptor of a regular file. The kind of the file is checked before it is opened, since others choose the
    names of files, and opening something else may act or block. Raises ImageError.
    """
    looked = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise ImageError("not-elf", f"{path}: not a regular file")
        return os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(looked)


def source_of(descriptor: int, path: Path) -> ByteSource:
    """The contents of an open file. Raises ImageError elf-malformed."""
    file = os.fstat(descriptor)
    if file.st_size > LARGEST_FILE:
        raise ImageError("elf-malformed", f"{path}: {file.st_size:#x} bytes is too large to be a program")
    settled = abs(time.time_ns() - file.st_ctime_ns) > _TICK
    state = state_of(file) if settled else None
    return ByteSource(path, file.st_size, lambda offset, size: _pread(descriptor, size, offset, path), state)


def _pread(descriptor: int, size: int, offset: int, path: Path) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except OSError as error:
        raise ImageError("elf-truncated", f"{path}: cannot be read at {offset:#x}: {error.strerror}") from error

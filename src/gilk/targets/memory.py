# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process's memory through /proc/PID/mem, which also writes to read-only code, as ptrace does."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Protocol

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE
from gilk.targets.maps import Mapping
from gilk.targets.shelter import Shelter

_HIGHEST = (1 << 63) - 1  # of what can be asked for; nothing of a process lies in the upper half
_PIECE = 1 << 20  # bytes that are read at a time
_MOST: Final = 2 << 30  # bytes of code that are looked through: more than the largest programs have


class Memory(Protocol):
    """The memory of a process by address, also of code that is read-only."""

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError when nothing is mapped there; may be short at the end of a mapping."""
        ...

    def some(self, address: int, size: int) -> bytes:
        """The bytes at an address, up to the first page that cannot be read."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError; ProcessLookupError where the address space has gone."""
        ...


class ProcessMemory:
    """Open for as long as the address space lives; an exec makes it read nothing."""

    def __init__(self, pid: int) -> None:
        """Raises TargetError `no-such-process`, `no-permission`."""
        self.gate = 0  # where the process has a system call instruction that may be borrowed; 0: not looked for yet
        self.haven: Shelter | None = None  # what a borrowed thread is led back from, once there is memory for it
        try:
            self._fd = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise TargetError("no-such-process", f"there is no process {pid}") from None
        except PermissionError:
            hint = "be its owner, or have CAP_SYS_PTRACE; `gilk doctor` says what is allowed here"
            raise TargetError("no-permission", f"no permission to write to process {pid}", hint) from None

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError when nothing is mapped there; may be short at the end of a mapping."""
        parts = []
        _check(address)
        while size:
            part = os.pread(self._fd, size, address)
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return b"".join(parts)

    def some(self, address: int, size: int) -> bytes:
        """The bytes at an address, up to the first page that cannot be read."""
        try:
            _check(address)
            return os.pread(self._fd, size, address) if size else b""
        except OSError:
            return b""

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError; ProcessLookupError where the address space has gone: there pwrite(2) writes nothing, and
        says so by 0."""
        view = memoryview(data)
        _check(address)
        while view:
            written = os.pwrite(self._fd, view, address)
            if not written:
                raise ProcessLookupError(errno.ESRCH, "the memory of the process has gone")
            address, view = address + written, view[written:]

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> ProcessMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stretches(mappings: Iterable[Mapping], memory: Memory, longest: int) -> Iterator[tuple[int, bytes]]:
    """The readable parts of mappings as (address, content): each has the whole of anything that begins in it, and at
    most ``longest`` bytes.

    It ends after 2 GiB: a process may have mapped more than anybody could read.
    """
    left = _MOST
    for mapping in mappings:
        for start in range(mapping.start, min(mapping.end, _HIGHEST), _PIECE):
            if left <= 0:
                return
            content = memory.some(start, min(_PIECE + longest - 1, mapping.end - start))
            left -= max(len(content), PAGE)
            if not content:
                break
            yield start, content


def _check(address: int) -> None:
    """A process may have any number where an address is looked for. Raises OSError where none of it can lie."""
    if not 0 <= address <= _HIGHEST:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process's memory through /proc/PID/mem, which can also write to read-only code, as ptrace can."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Protocol

from gilk.errors import TargetError
from gilk.splice.allocator import PAGE
from gilk.targets.alive import memory_file
from gilk.targets.maps import Mapping
from gilk.targets.shelter import Shelter

_HIGHEST = (1 << 63) - 1  # the highest address that can be asked for; a process has nothing in the upper half
_PIECE = 1 << 20  # bytes that are read at a time
_MOST: Final = 2 << 30  # bytes of code that are searched: more than the largest programs have


class Memory(Protocol):
    """The memory of a process by address. Read-only code can be written, too."""

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address; fewer at the end of a mapping. Raises OSError when nothing is mapped there."""
        ...

    def some(self, address: int, size: int) -> bytes:
        """The bytes at an address, up to the first page that cannot be read; empty if that is the first page."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address. Raises OSError; ProcessLookupError where the address space has gone."""
        ...


class ProcessMemory:
    """The memory file of a process. It stays valid as long as the address space lives; after an exec it reads
    nothing."""

    def __init__(self, pid: int) -> None:
        """Open the memory file. Raises TargetError `no-such-process`, `no-permission`."""
        self.gate = 0  # address of a ``syscall`` instruction (remote.py); 0: not looked for yet
        self.haven: Shelter | None = None  # for a borrowed thread's state (haven.py), once mapped
        self._fd = _opened(pid)

    @property
    def has_gone(self) -> bool:
        """Whether the address space has gone: pread(2) returns 0 then, wherever it reads."""
        try:
            return not os.pread(self._fd, 1, PAGE)
        except OSError:
            return False  # only nothing is mapped there

    def renew(self, pid: int) -> None:
        """Be the memory of the program that the process executes now. Raises as the constructor does."""
        fresh = _opened(pid)
        os.close(self._fd)
        self._fd, self.gate, self.haven = fresh, 0, None

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address; fewer at the end of a mapping. Raises OSError when nothing is mapped there."""
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
        """The bytes at an address, up to the first page that cannot be read; empty if that is the first page."""
        try:
            _check(address)
            return os.pread(self._fd, size, address) if size else b""
        except OSError:
            return b""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes at an address. Raises OSError; ProcessLookupError where the address space has gone, in which case
        pwrite(2) writes nothing and returns 0."""
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


def _opened(pid: int) -> int:
    """A descriptor of the memory file. Raises TargetError `no-such-process`, `no-permission`."""
    try:
        return memory_file(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise TargetError("no-such-process", f"there is no process {pid}") from None
    except PermissionError:
        hint = "be its owner, or have CAP_SYS_PTRACE; `gilk doctor` says what is allowed here"
        raise TargetError("no-permission", f"no permission to write to process {pid}", hint) from None


def stretches(mappings: Iterable[Mapping], memory: Memory, longest: int) -> Iterator[tuple[int, bytes]]:
    """The readable parts of mappings as (address, content). The parts overlap, so that anything of at most ``longest``
    bytes is contained in one of them as a whole.

    The search ends after 2 GiB: a process may have mapped more than anybody could read.
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
    """Check that ``address`` can be an address: a number found in the memory of a process may be anything. Raises
    OSError."""
    if not 0 <= address <= _HIGHEST:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process's memory through /proc/PID/mem, which also writes to read-only code, as ptrace does."""

from __future__ import annotations

import os
from types import TracebackType

from gilk.errors import TargetError


class Memory:
    """Open for as long as the address space lives; an exec makes it read nothing."""

    def __init__(self, pid: int) -> None:
        """Raises TargetError `no-such-process`, `no-permission`."""
        self.gate = 0  # where the process has a system call instruction that may be borrowed; 0: not looked for yet
        try:
            self._fd = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise TargetError("no-such-process", f"there is no process {pid}") from None
        except PermissionError:
            raise TargetError("no-permission", f"no permission to write to process {pid}") from None

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError when nothing is mapped there; may be short at the end of a mapping."""
        parts = []
        while size:
            part = os.pread(self._fd, size, address)
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return b"".join(parts)

    def some(self, address: int, size: int) -> bytes:
        """What is there, up to the first page that is not."""
        try:
            return os.pread(self._fd, size, address) if size else b""
        except OSError:
            return b""

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, address)
            address, view = address + written, view[written:]

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

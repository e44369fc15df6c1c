# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where the output of a program goes, and what actions ask of the system: system(), freopen(), ftruncate()."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Protocol


class Outlet(Protocol):
    def system(self, command: bytes) -> int:
        """Have a shell run it, and wait for it; its status, as a shell gives it."""
        ...

    def freopen(self, name: bytes) -> None:
        """Raises OSError, ValueError."""
        ...

    def ftruncate(self) -> None: ...


class Pages:
    """Standard output or a file that is appended to, until freopen() changes it."""

    def __init__(self, output: Path | None) -> None:
        self._first: IO[bytes] = sys.stdout.buffer if output is None else output.open("ab")
        self._to = self._first

    def write(self, data: bytes) -> None:
        self._to.write(data)
        self._to.flush()

    def system(self, command: bytes) -> int:
        self._to.flush()
        return _run(command, self._to)

    def freopen(self, name: bytes) -> None:
        """Empty: back to where output went at first."""
        self._to = self._first if not name else Path(os.fsdecode(name)).open("wb")  # noqa: SIM115 - until the next

    def ftruncate(self) -> None:
        if self._to is not sys.stdout.buffer:
            self._to.truncate(0)
            self._to.seek(0)


class Aside:
    """For output that is values: it stays where it is, and what commands print goes to standard error."""

    def system(self, command: bytes) -> int:
        return _run(command, sys.stderr)

    def freopen(self, name: bytes) -> None:
        """The events tell of it."""

    def ftruncate(self) -> None:
        """As of freopen()."""


def _run(command: bytes, output: IO[bytes] | IO[str]) -> int:
    import subprocess  # here: few programs run commands

    status = subprocess.run(command, shell=True, check=False, stdout=output).returncode
    return status if status >= 0 else 128 - status

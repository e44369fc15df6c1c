# SPDX-License-Identifier: LGPL-2.1-or-later
"""A link to a kernel through which files are read, and nothing else is done."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import NoReturn


class FilesLink:
    """gilk.targets.kernel.link.Link; ``read`` returns the contents of a file, or raises OSError or MachineGone. All
    other methods raise OSError EOPNOTSUPP."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read

    def read_file(self, path: str) -> bytes:
        return self._read(path)

    def read_core(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._refuse()

    def open_driver(self) -> None:
        self._refuse()

    def close_driver(self) -> None:
        """Do nothing: the driver is not open."""

    def control(self, request: int, payload: bytes) -> bytes:
        self._refuse()

    def controls(self, request: int, payloads: Sequence[bytes]) -> list[bytes]:
        self._refuse()

    def lend(self, request: int, payload: bytes, place: int, path: str) -> bytes:
        self._refuse()

    def drain(self, most: int) -> bytes:
        self._refuse()

    def map(self, offset: int, size: int, write: bool) -> mmap | None:
        return None

    def run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        self._refuse()

    def close(self) -> None:
        """Do nothing: whoever has made the function ends it."""

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Digests: BLAKE2 without OpenSSL (loading OpenSSL takes ten milliseconds, a tenth of a start), and stamps of files,
which are made without reading them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    for _place in ("_blake2", "hashlib"):  # CPython's own module, or the public one
        try:
            blake2b = import_module(_place).blake2b
        except (ImportError, AttributeError):
            continue
        break

SIZE = 32  # in bytes


def digest(content: bytes | memoryview) -> blake2b:
    return blake2b(content, digest_size=SIZE)


def stamp(files: Iterable[Path]) -> bytes:
    """A stamp of the files, which differs if one of them was written to or replaced. Raises OSError."""
    rows = [(file.name, state_of(file.stat())) for file in files]
    return digest(repr(rows).encode()).digest()


def state_of(file: os.stat_result) -> tuple[int, ...]:
    """Numbers that differ if the content of the file may have changed: nobody can set the time of such a change
    (ctime).
    """
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns

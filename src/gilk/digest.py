# SPDX-License-Identifier: LGPL-2.1-or-later
"""What things are known by: SHA-256 without waiting for OpenSSL (to load that takes ten milliseconds, a tenth of a
start), and stamps of files that need not be read for it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as sha256
else:
    for _place in ("_sha256", "_sha2", "hashlib"):  # of Python 3.11, of later ones, of those that are not CPython
        try:
            sha256 = import_module(_place).sha256
        except (ImportError, AttributeError):
            continue
        break


def stamp(files: Iterable[Path]) -> bytes:
    """Another whenever one of them was written, or replaced, since: nobody can set the time of such a change (ctime).

    Raises OSError.
    """
    digest = sha256()
    for file in files:
        state = file.stat()
        row = file.name, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        digest.update(repr(row).encode())
    return digest.digest()

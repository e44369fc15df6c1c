# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes files that commands make besides samples."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gilk.errors import StoreError
from gilk.outputs import replaceable, replacing


def write(path: Path, parts: Iterable[bytes | str]) -> int:
    """Write a file, completely or not at all; returns its size in bytes. A device or a pipe is written to directly.
    Raises StoreError `cannot-write`.
    """
    try:
        with replacing(path) if replaceable(path) else path.open("wb") as file:
            return sum(file.write(part.encode("utf-8", "replace") if isinstance(part, str) else part) for part in parts)
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None

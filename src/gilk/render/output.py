# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that commands make besides samples."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from gilk.errors import StoreError


def write(path: Path, parts: Iterable[bytes | str]) -> int:
    """Write a file, as a whole or not at all; how many bytes it has. Raises StoreError `cannot-write`.

    What is no file, a device or a pipe, is written to as it is.
    """
    plain = path.is_file() or not path.exists()
    target = path.with_name(path.name + ".new") if plain else path
    size = 0
    try:
        with target.open("wb") as file:
            for part in parts:
                size += file.write(part.encode("utf-8", "replace") if isinstance(part, str) else part)
        if plain:
            os.replace(target, path)
    except OSError as error:
        if plain:
            with contextlib.suppress(OSError):
                target.unlink()
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None
    return size

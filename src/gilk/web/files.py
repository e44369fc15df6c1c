# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the files that pages are about: only regular ones of a bounded size."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from gilk.errors import StoreError, UsageError


def text_of(path: Path, most: int) -> str | None:
    """The text of a file, which may have at most ``most`` bytes; None if there is no file.

    Raises StoreError `no-permission`, UsageError `not-text`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError("no-permission", f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError("not-text", f"{path} is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError("not-text", f"{path} has more than {most >> 10} kB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError("not-text", f"{path} is not text in UTF-8") from None


def digest_of(text: str | None) -> str:
    """A digest that distinguishes the texts of a file; '' for a file that does not exist."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]

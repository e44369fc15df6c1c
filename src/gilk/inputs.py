# SPDX-License-Identifier: LGPL-2.1-or-later
"""Texts of files. A file that a user names may also be a pipe, or a device without an end; a file that a program or a
request names is read only if it is a regular one."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from gilk.errors import StoreError, UsageError

#: Characters of a program, a file of aspects or an experiment; gilk's own are some thousand long.
MOST: Final = 4 << 20


def read_text(path: Path, most: int = MOST) -> str:
    """The text of a file of at most ``most`` characters. Bytes that are not UTF-8 are kept as they are
    (surrogateescape). Raises UsageError `too-long` if there are more, OSError.
    """
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise UsageError(
            "too-long", f"{path} has more than {most >> 20} million characters", "gilk has not read the rest"
        )
    return text


def text_of(path: Path, most: int, below: Path | None = None) -> str | None:
    """The text of a file, which may have at most ``most`` bytes; None if there is no file. ``below``: a directory that
    the path, which has no links in it, begins with: then no link is followed from there on.

    Raises StoreError `no-permission`, UsageError `not-text`.
    """
    try:
        descriptor = _opened(path) if below is None else _opened_below(path, below)
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


def _opened(path: Path | str, flags: int = 0, place: int | None = None) -> int:
    """A descriptor of the file, opened without waiting. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | flags, dir_fd=place)


def _opened_below(path: Path, below: Path) -> int:
    """The same without following links below a directory, whatever others exchange there meanwhile. Raises OSError."""
    *folders, name = path.relative_to(below).parts
    place = os.open(below, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = inner
        return _opened(name, os.O_NOFOLLOW, place)
    finally:
        os.close(place)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out whether a file can be made, before anything is begun whose results it is to hold."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gilk.errors import StoreError

#: The ending has the length of ".partial", but is not the same: a script may wait for FILE.partial to appear with data.
_LIKE_PARTIAL = ".checked"


def check(path: Path | None, appends: bool = False) -> None:
    """Raises StoreError `cannot-write` if a file of samples cannot be made or, if it ``appends``, cannot be written to.
    An existing file keeps its content: it is replaced only once there is something to replace it with. ``path`` None:
    no file.
    """
    if path is None:
        return
    try:
        if path.is_dir() or (path.exists() and not path.is_file() and not appends):
            raise StoreError("cannot-write", f"{path} exists and is not a regular file", "choose another -o")
        _may_make(path if appends else path.with_name(path.name + _LIKE_PARTIAL))
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def _may_make(path: Path) -> None:
    """Make a file and remove it, since a file system may refuse what permissions allow. Raises OSError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
    else:
        path.unlink(missing_ok=True)

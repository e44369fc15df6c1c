# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a file can be made, found out before anything is begun of which it is to tell."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gilk.errors import StoreError

#: It is as long as ".partial", and another name: a script that waits for FILE.partial waits until there is data.
_LIKE_PARTIAL = ".checked"


def check(path: Path | None, appends: bool = False) -> None:
    """Raises StoreError `cannot-write` where a file of samples could not be made or, if it ``appends``, nothing could
    be written. A file that is there keeps what it has: it is replaced when there is something to replace it by."""
    if path is None:
        return
    try:
        if path.is_dir() or (path.exists() and not path.is_file() and not appends):
            raise StoreError("cannot-write", f"{path} exists and is not a regular file", "choose another -o")
        _may_make(path if appends else path.with_name(path.name + _LIKE_PARTIAL))
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def _may_make(path: Path) -> None:
    """A file system may refuse what permissions allow, so one is made and taken away. Raises OSError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
    else:
        path.unlink(missing_ok=True)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes files, which have a temporary name beside their own until they are complete.

Others who may write to the directory know that name as well, and may have put something there: a link to a file of
ours, a pipe, a file that others can read. So whatever is there is removed, never opened, and the file is a new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_TRIES = 100  # if two processes do this at once, one may always be first
_NOT_FOR_FILES = ("/dev", "/proc", "/sys")


def fresh(path: Path) -> int:
    """A new, empty file, opened for reading and writing, with the mode that the umask leaves. Raises OSError."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    raise FileExistsError(errno.EEXIST, "others make one of that name all the time", str(path))


def replaceable(path: Path) -> bool:
    """Whether a new file may replace what is at the path: nothing, a link to nothing, or a file.

    A device may not be replaced, nor a name such as /dev/stdout, whatever it leads to at present.
    """
    if path.exists() and not path.is_file():
        return False
    place = Path(os.path.realpath(path.parent))
    return place.is_relative_to("/dev/shm") or not any(place.is_relative_to(name) for name in _NOT_FOR_FILES)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that is at `path`, complete, after the ``with`` block; after an error nothing has changed there. Raises
    OSError.
    """
    new = path.with_name(path.name + ".new")
    with os.fdopen(fresh(new), "wb") as file:
        try:
            yield file
            file.flush()
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

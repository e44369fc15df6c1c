# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cache of arrays in the user's cache directory, for what is slow to find and follows from a file's content.

A cache never fails: what cannot be stored is computed again, and what cannot be read does not exist.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gilk.digest import digest
from gilk.errors import ImageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any
LARGEST_ARRAYS = 1 << 31  # bytes, uncompressed, of one entry


def cache_dir() -> Path:
    """$GILK_CACHE, or gilk in $XDG_CACHE_HOME, or ~/.cache/gilk: made for its owner only.

    Raises ImageError cache-unusable when it cannot be made, or belongs to or can be written by someone else:
    what another user puts there would become code in our targets.
    """
    path = _place()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, ValueError) as error:
        raise ImageError("cache-unusable", f"{path}: {error}", "set GILK_CACHE to a directory of yours") from error
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        hint = "chmod go-w it, or set GILK_CACHE to a directory of yours"
        raise ImageError("cache-unusable", f"{path}: others than you can write to it", hint)
    return path


def kernels_dir() -> Path:
    """Where the kernels of the lab are, a directory each: $GILK_KERNELS, or in the cache. Raises as cache_dir()."""
    given = os.environ.get("GILK_KERNELS")
    return Path(given) if given else cache_dir() / "kernels"


def load_arrays(key: str) -> dict[str, Array] | None:
    """What store_arrays kept under ``key``; None when there is nothing, or it is damaged."""
    import numpy  # here: who has no arrays need not wait for it

    try:
        with numpy.load(_file(key), allow_pickle=False) as stored:
            if sum(entry.file_size for entry in stored.zip.infolist()) > LARGEST_ARRAYS:
                return None
            return {name: stored[name] for name in stored.files}
    except Exception:  # zipfile and numpy raise almost anything for a damaged archive
        return None


def store_arrays(key: str, arrays: Mapping[str, Array]) -> None:
    """Keep ``arrays`` for load_arrays; readers see all of them or none.

    Does nothing when there is no room, or the directory cannot be used. Raises ValueError for arrays of objects,
    which only pickle could store.
    """
    if any(array.dtype.hasobject for array in arrays.values()):
        raise ValueError("arrays of objects are not cached")
    import numpy

    try:
        with written(_file(key)) as file:
            numpy.savez(file, **dict[str, Any](arrays))
    except (ImageError, OSError):
        return


def _place() -> Path:
    own, home = os.environ.get("GILK_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(own)
    # The XDG base directory specification: a relative path is to be ignored.
    base = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".cache"
    return base / "gilk"


def _file(key: str) -> Path:
    """A key may hold any characters, so its digest names the file."""
    return cache_dir() / (digest(key.encode()).hexdigest() + ".npz")


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A file to be there, whole, at the end. Raises OSError."""
    import tempfile  # here: it takes long to import, and most only read

    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

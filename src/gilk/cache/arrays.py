# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cache of arrays, for results that take long to compute and follow from the content of files.

The cache never fails: arrays that cannot be stored are computed again, and those that cannot be read count as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gilk.cache.place import open_cache
from gilk.digest import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any
LARGEST_ARRAYS = 1 << 31  # uncompressed bytes of one entry


def load_arrays(key: str) -> dict[str, Array] | None:
    """The arrays that store_arrays kept under ``key``; None when there are none, or they are damaged."""
    import numpy  # a late import: it takes time, and not all callers have arrays

    try:
        with open_cache() as place, place.reading(_name(key)) as file, numpy.load(file, allow_pickle=False) as stored:
            if sum(entry.file_size for entry in stored.zip.infolist()) > LARGEST_ARRAYS:
                return None
            return {name: stored[name] for name in stored.files}
    except Exception:  # zipfile and numpy raise all kinds of errors for a damaged archive
        return None


def store_arrays(key: str, arrays: Mapping[str, Array]) -> None:
    """Keep ``arrays`` for load_arrays; readers see all of them or none.

    Does nothing when there is no room, or the directory cannot be used. Raises ValueError for arrays of objects, which
    only pickle could store.
    """
    if any(array.dtype.hasobject for array in arrays.values()):
        raise ValueError("arrays of objects are not cached")
    import numpy

    try:
        with open_cache() as place, place.writing(_name(key)) as file:
            numpy.savez(file, **dict[str, Any](arrays))
    except OSError:
        return


def _name(key: str) -> str:
    """The name of the file: a digest of the key, which may hold any characters."""
    return digest(key.encode()).hexdigest() + ".npz"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cache of byte strings in the user's cache directory, by what they were made of; the oldest make room.

A cache never fails: what cannot be stored is made again, and what is damaged does not exist. The directory is its
owner's alone (image/cache.py), and each entry says what it holds, so that half of one is none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gilk.digest import SIZE, digest
from gilk.errors import ImageError
from gilk.image.cache import cache_dir, written

MOST = 256  # entries of one kind
LARGEST = 4 << 20  # bytes of one


def load_blob(kind: str, key: bytes) -> bytes | None:
    """What store_blob() kept; None when there is nothing, or it is not that."""
    try:
        path = _place(kind) / _name(key)
        with path.open("rb") as file:
            seal, data = file.read(SIZE), file.read(LARGEST + 1)
    except (ImageError, OSError):
        return None
    if len(data) > LARGEST or seal != _seal(key, data):
        return None
    with suppress(OSError):
        os.utime(path)
    return data


def store_blob(kind: str, key: bytes, data: bytes) -> None:
    """Readers see all of it or nothing. Does nothing when there is no room, or the directory cannot be used."""
    if len(data) > LARGEST:
        return
    with suppress(ImageError, OSError):
        place = _place(kind)
        with written(place / _name(key)) as file:
            file.write(_seal(key, data) + data)
        _make_room(place)


def _place(kind: str) -> Path:
    place = cache_dir() / kind
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def _name(key: bytes) -> str:
    return digest(key).hexdigest()


def _seal(key: bytes, data: bytes) -> bytes:
    return digest(digest(key).digest() + data).digest()


def _make_room(place: Path) -> None:
    """Those used longest ago go, and so do halves that someone left."""
    found = sorted(place.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in found[MOST:]:
        old.unlink(missing_ok=True)

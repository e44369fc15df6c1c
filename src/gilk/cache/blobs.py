# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cache of byte strings in the user's cache directory, by a digest of all that they were made of. The entries used
longest ago make room for new ones.

The cache never fails: a string that cannot be stored is made again, and a damaged entry counts as missing. Only its
owner can change the directory (place.py), and each entry has a digest of its content, so that half an entry counts as
missing. The digest does not prove who wrote the entry, since anyone can compute it; only the directory keeps others
out.
"""

from __future__ import annotations

import os
from contextlib import suppress

from gilk.cache.place import open_cache
from gilk.digest import SIZE, digest
from gilk.private import Directory

MOST = 256  # entries of one kind
LARGEST = 4 << 20  # bytes of one entry


def load_blob(kind: str, key: bytes) -> bytes | None:
    """The bytes that store_blob() kept under ``key``; None when there are none, or they are damaged."""
    try:
        with open_cache() as cache, cache.beneath(kind) as place, place.reading(_name(key)) as file:
            seal, data = file.read(SIZE), file.read(LARGEST + 1)
            if len(data) > LARGEST or seal != _seal(key, data):
                return None
            with suppress(OSError):
                os.utime(file.fileno())
            return data
    except OSError:
        return None


def store_blob(kind: str, key: bytes, data: bytes) -> None:
    """Keep ``data`` for load_blob; readers see all of it or nothing. Does nothing when there is no room, or the
    directory cannot be used."""
    if len(data) > LARGEST:
        return
    with suppress(OSError), open_cache() as cache, cache.beneath(kind) as place:
        with place.writing(_name(key)) as file:
            file.write(_seal(key, data) + data)
        _make_room(place)


def _name(key: bytes) -> str:
    return digest(key).hexdigest()


def _seal(key: bytes, data: bytes) -> bytes:
    return digest(digest(key).digest() + data).digest()


def _make_room(place: Directory) -> None:
    """Remove the entries used longest ago, including unfinished ones that were left behind."""
    with os.scandir(place.descriptor) as entries:
        found = sorted(entries, key=lambda each: each.stat(follow_symlinks=False).st_mtime, reverse=True)
    for old in found[MOST:]:
        with suppress(FileNotFoundError):
            os.unlink(old.name, dir_fd=place.descriptor)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A cache of large columns (arrays), which are mapped from their files rather than read, by a digest of all that they
were made of.

A file begins with a digest of its description, which has a digest of each column; a column is compared with its digest
when it is first used. As in `blobs`, the digests find damage, and the directory keeps others out. If the columns cannot
be kept, they are made in memory, and the reason is given.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import IO, Any, Final

import numpy as np

from gilk.cache.place import open_cache
from gilk.digest import SIZE, digest
from gilk.private import Directory
from gilk.values import dataclass

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Room = Callable[[dict[str, tuple[str, int]]], dict[str, Array]]
MOST = 32  # files of one kind
LARGEST: Final = 8 << 30  # bytes of all files of one kind
_MAGIC: Final = b"gilkcols"
_HEAD: Final = struct.Struct(f"<8sQQ{SIZE}s")  # magic, the description's offset, length and digest
_ALIGNED: Final = 64
_LONGEST: Final = 1 << 28  # bytes of a description
_UNFINISHED: Final = ".new-"  # prefix of the name of an unfinished file (private.py)


class DamagedColumnError(Exception):
    """A column is not as it was stored."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns by name. ``about`` is the description that was kept with them; ``why_not``: why they were not kept, "" if
    they were."""

    about: Json
    columns: Mapping[str, Array]
    why_not: str = ""


def load(kind: str, key: bytes) -> Columns | None:
    """The columns that make() kept; None when there are none, or they are damaged. A column that is found damaged later
    raises DamagedColumnError."""
    try:
        with open_cache() as cache, cache.beneath(kind) as place, place.reading(_name(key)) as file:
            size = os.fstat(file.fileno()).st_size
            magic, at, length, seal = _HEAD.unpack(file.read(_HEAD.size))
            if magic != _MAGIC or length > _LONGEST or at + length != size:
                return None
            file.seek(at)
            text = file.read(length)
            if digest(key + text).digest() != seal:
                return None
            described = json.loads(text)
            with suppress(OSError):
                os.utime(file.fileno())
            return Columns(described["about"], _Mapped(file, size, described["columns"]))
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def forget(kind: str, key: bytes) -> None:
    with suppress(OSError), open_cache() as cache, cache.beneath(kind) as place:
        os.unlink(_name(key), dir_fd=place.descriptor)


def make(kind: str, key: bytes, build: Callable[[Room], Json]) -> Columns:
    """Make columns and keep them: ``build`` calls its argument once for room for the columns, fills them, and returns
    the description to keep with them. Its errors are raised. Readers see all of the file or nothing."""
    with ExitStack() as held:
        try:
            place = held.enter_context(held.enter_context(open_cache()).beneath(kind))
            _make_room(place)
            return _make_in(place, key, build)
        except _NotKept as error:
            return Columns(error.about, error.columns, error.why)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
    return _in_memory(build, why)


class _NotKept(Exception):
    def __init__(self, about: Json, columns: dict[str, Array], why: str) -> None:
        self.about, self.columns, self.why = about, columns, why


def _make_in(place: Directory, key: bytes, build: Callable[[Room], Json]) -> Columns:
    with place.writing(_name(key)) as file:
        new = _New(file)
        about = build(new.room)
        if not new.why_not:
            new.finish(key, about)
        if new.why_not:
            raise _NotKept(about, new.columns, new.why_not)
    return Columns(about, new.columns)


def _in_memory(build: Callable[[Room], Json], why: str) -> Columns:
    made: dict[str, Array] = {}

    def room(wanted: dict[str, tuple[str, int]]) -> dict[str, Array]:
        made.update(_empty(wanted))
        return made

    return Columns(build(room), made, why)


def _empty(wanted: dict[str, tuple[str, int]]) -> dict[str, Array]:
    return {name: np.zeros(count, kind) for name, (kind, count) in wanted.items()}


class _New:
    """A file that is being made."""

    def __init__(self, file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while the file is being made
        self._file = file
        self.columns: dict[str, Array] = {}
        self.why_not = ""
        self._places: dict[str, tuple[int, str, int]] = {}
        self._end = _HEAD.size

    def room(self, wanted: dict[str, tuple[str, int]]) -> dict[str, Array]:
        for name, (kind, count) in wanted.items():
            at = -(-self._end // _ALIGNED) * _ALIGNED
            self._places[name] = at, kind, count
            self._end = at + count * np.dtype(kind).itemsize
        try:
            # Allocate everything now: writing to a page of the mapping that finds no room on the disk would raise
            # SIGBUS.
            os.posix_fallocate(self._file.fileno(), 0, self._end)
            mapped = mmap.mmap(self._file.fileno(), self._end)
        except (OSError, ValueError) as error:
            self._give_up(error)
            self.columns = _empty(wanted)
            return self.columns
        self.columns = {
            name: np.frombuffer(mapped, kind, count, at) for name, (at, kind, count) in self._places.items()
        }
        return self.columns

    def _give_up(self, error: OSError | ValueError) -> None:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        self.why_not = "the disk is full" if full else str(error)

    def finish(self, key: bytes, about: Json) -> None:
        places = self._places.items()
        seals = {name: [at, kind, count, _sealed(self.columns[name])] for name, (at, kind, count) in places}
        text = json.dumps({"about": about, "columns": seals}).encode()
        try:
            self._file.seek(self._end)
            self._file.write(text)
            self._file.seek(0)
            self._file.write(_HEAD.pack(_MAGIC, self._end, len(text), digest(key + text).digest()))
            self._file.flush()
        except OSError as error:
            self._give_up(error)


class _Mapped(Mapping[str, Array]):
    """The columns of a file; each is compared with its digest when it is first used."""

    def __init__(self, file: IO[bytes], size: int, described: Mapping[str, Any]) -> None:
        """Map the file. Raises ValueError."""
        self._mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self._described: dict[str, Any] = dict(described)
        self._known: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        """The column of that name. Raises DamagedColumnError."""
        if name not in self._known:
            try:
                at, kind, count, seal = self._described[name]
                found = np.frombuffer(self._mapped, kind, count, at) if count else np.empty(0, kind)
            except (ValueError, TypeError, KeyError) as error:
                raise DamagedColumnError(name) from error
            if _sealed(found) != seal:
                raise DamagedColumnError(name)
            self._known[name] = found
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)


def _sealed(column: Any) -> str:
    return digest(memoryview(column).cast("B") if len(column) else b"").hexdigest()


def _name(key: bytes) -> str:
    return digest(key).hexdigest()


def _make_room(place: Directory) -> None:
    """Remove the files used longest ago, and unfinished ones that were left behind."""
    with os.scandir(place.descriptor) as entries:
        found = [(each.name, each.stat(follow_symlinks=False)) for each in entries]
    total, number = 0, 0
    for name, about in sorted(found, key=lambda each: each[1].st_mtime, reverse=True):
        if name.startswith(_UNFINISHED):
            old = not _is_being_made(place, name)
        else:
            total, number = total + about.st_blocks * 512, number + 1
            old = number > MOST or total > LARGEST
        if old:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.descriptor)


def _is_being_made(place: Directory, name: str) -> bool:
    try:
        with place.reading(name) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False

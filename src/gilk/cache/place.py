# SPDX-License-Identifier: LGPL-2.1-or-later
"""The directory of the cache.

The contents become code in targets and in gilk itself, so the cache lies only where nobody but the user and root can
change it (private.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gilk import private
from gilk.errors import ImageError
from gilk.private import Directory, Unsound
from gilk.values import dataclass

_HINT = "let each directory above it be yours or root's, and nobody else's to write to, or set GILK_CACHE to such a one"


def places() -> Iterator[Path]:
    """The places where the cache may be, best first: $GILK_CACHE and nothing else; or gilk in $XDG_CACHE_HOME, or
    ~/.cache/gilk, and if HOME is another user's, as after sudo -E or su -m, also in the home directory that the system
    has for this user."""
    named, base = os.environ.get("GILK_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if named:
        yield Path(named)
        return
    # The XDG base directory specification: a relative path is to be ignored.
    if os.path.isabs(base):
        yield Path(base) / "gilk"
    yield from (Path(home) / ".cache" / "gilk" for home in _homes() if os.path.isdir(home))


def _homes() -> Iterator[str]:
    yield os.environ.get("HOME", "")
    import pwd  # here: to look there may mean to ask another machine

    with suppress(KeyError):
        yield pwd.getpwuid(os.geteuid()).pw_dir


def open_cache() -> Directory:
    """The first of places() that nobody but we and root can change, made if it is not there. Raises OSError."""
    reason: OSError = FileNotFoundError(0, "has no place: there is no home directory", "the cache")
    for place in places():
        try:
            return private.directory(place, make=True)
        except Unsound as error:
            private.pass_over(error)
            reason = error
        except (OSError, ValueError) as error:
            reason = error if isinstance(error, OSError) else OSError(0, str(error), str(place))
    raise reason


@dataclass(frozen=True)
class Intended:
    """The place where the cache will be, and is made when something is kept; None without one. ``why`` says why places
    were passed over."""

    path: Path | None
    why: tuple[str, ...]


def intended() -> Intended:
    why: list[str] = []
    for place in places():
        try:
            _above(place).__exit__()
        except (OSError, ValueError) as error:
            why.append(_told(error))
        else:
            return Intended(place, tuple(why))
    return Intended(None, tuple(why))


def _above(place: Path) -> Directory:
    """The directory, or else the lowest of those above it that there is."""
    try:
        return private.directory(place)
    except FileNotFoundError:
        absolute = Path(os.path.abspath(place))
    for each in absolute.parents:
        with suppress(FileNotFoundError):
            return private.directory(each, shared=True)
    raise FileNotFoundError(0, "is nowhere", str(place))


def cache_dir() -> Path:
    """The directory of the cache, without links. Nobody else can exchange it: it may go by its name.

    Raises ImageError cache-unusable.
    """
    return subdirectory()


def kernels_dir() -> Path:
    """The directory of the lab's kernels, which has a directory for each: $GILK_KERNELS, or in the cache. Raises as
    cache_dir()."""
    given = os.environ.get("GILK_KERNELS")
    if not given:
        return subdirectory("kernels")
    with _usable(), private.directory(Path(given), make=True) as found:
        return found.path


def subdirectory(*names: str) -> Path:
    """A directory in the cache, each name in the one before; made if it is not there. Raises as cache_dir()."""
    with _usable(), ExitStack() as open_ones:
        found = open_ones.enter_context(open_cache())
        for name in names:
            found = open_ones.enter_context(found.beneath(name))
        return found.path


@contextmanager
def _usable() -> Iterator[None]:
    """Raises ImageError cache-unusable."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ImageError("cache-unusable", _told(error), _HINT) from error


def _told(error: OSError | ValueError) -> str:
    return private.told(error) if isinstance(error, Unsound) else str(error)

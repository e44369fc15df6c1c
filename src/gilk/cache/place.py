# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds and opens the directory of the cache.

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
    """The places where the cache may be, best first: if $GILK_CACHE is set, only that; else gilk in $XDG_CACHE_HOME,
    then ~/.cache/gilk, first with $HOME, then with the home directory that the system has for this user, which differs
    after sudo -E or su -m."""
    named, base = os.environ.get("GILK_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if named:
        yield Path(named)
        return
    # A relative path is to be ignored (XDG base directory specification).
    if os.path.isabs(base):
        yield Path(base) / "gilk"
    yield from (Path(home) / ".cache" / "gilk" for home in _homes() if os.path.isdir(home))


def _homes() -> Iterator[str]:
    yield os.environ.get("HOME", "")
    import pwd  # a late import, for a look-up that may ask another machine

    with suppress(KeyError):
        yield pwd.getpwuid(os.geteuid()).pw_dir


def open_cache() -> Directory:
    """The first of places() that nobody but the user and root can change; created if it does not exist. Raises
    OSError."""
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
    """The directory where the cache is, or will be created when something is kept; None if there is no place. ``why``
    says why other places were passed over."""

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
    """The directory, or else the lowest existing directory above it. Raises OSError, ValueError."""
    try:
        return private.directory(place)
    except FileNotFoundError:
        absolute = Path(os.path.abspath(place))
    for each in absolute.parents:
        with suppress(FileNotFoundError):
            return private.directory(each, shared=True)
    raise FileNotFoundError(0, "is nowhere", str(place))


def cache_dir() -> Path:
    """The directory of the cache, without symbolic links in its path. Nobody else can replace it, so it may be used by
    its name.

    Raises ImageError cache-unusable.
    """
    return subdirectory()


def kernels_dir() -> Path:
    """The directory of the lab's kernels, with a directory for each: $GILK_KERNELS, or one in the cache. Raises as
    cache_dir() does."""
    given = os.environ.get("GILK_KERNELS")
    if not given:
        return subdirectory("kernels")
    with _usable(), private.directory(Path(given), make=True) as found:
        return found.path


def subdirectory(*names: str) -> Path:
    """A directory in the cache; each name lies in the one before. It is created if it does not exist. Raises as
    cache_dir() does."""
    with _usable(), ExitStack() as open_ones:
        found = open_ones.enter_context(open_cache())
        for name in names:
            found = open_ones.enter_context(found.beneath(name))
        return found.path


@contextmanager
def _usable() -> Iterator[None]:
    """A context that turns OSError and ValueError into ImageError cache-unusable."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ImageError("cache-unusable", _told(error), _HINT) from error


def _told(error: OSError | ValueError) -> str:
    return private.told(error) if isinstance(error, Unsound) else str(error)

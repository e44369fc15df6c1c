# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types that consist of one another. Each is made once, and their depth is bounded, for code that follows them
recurses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gilk.errors import ImageError
from gilk.lang.types import Type

DEEPEST = 64  # levels of types in types; more are only in a file that is wrong
LARGEST = 1 << 47  # bytes: no process and no kernel has room for more
Key = TypeVar("Key")


class Nesting(Generic[Key]):
    """The types of one file, by key. ``malformed`` makes the error for a file that is wrong."""

    def __init__(self, malformed: Callable[[str], ImageError]) -> None:
        self._malformed = malformed
        self._open = 0  # types that are being made, each within the one before
        self._below = 0  # how many levels the parts of the innermost type have so far
        self._made: dict[Key, tuple[Type, int]] = {}  # each with its number of levels

    def of(self, key: Key, make: Callable[[], Type]) -> Type:
        """The type of that key; ``make`` makes it, and asks here for the types that it consists of. Raises
        ImageError."""
        if key not in self._made:
            self._made[key] = self._new(make)
        made, height = self._made[key]
        if self._open + height > DEEPEST:
            raise self._malformed("types in types, without an end")
        self._below = max(self._below, height)
        return made

    def deeper(self, by: int, what: str) -> None:
        """Note that the type being made has ``by`` levels of its own. Raises ImageError."""
        self._below += by
        if self._below > DEEPEST:
            raise self._malformed(what)

    def _new(self, make: Callable[[], Type]) -> tuple[Type, int]:
        if self._open >= DEEPEST:
            raise self._malformed("a type that contains itself")
        around, self._below = self._below, 0
        self._open += 1
        try:
            return make(), self._below + 1
        finally:
            self._open, self._below = self._open - 1, around

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types that are made of each other, each once: not deeper in each other than what follows them along may go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gilk.errors import ImageError
from gilk.lang.types import Type

DEEPEST = 64  # types in types: there are no more, unless the file lies
LARGEST = 1 << 47  # bytes: no process and no kernel has room for more
Key = TypeVar("Key")


class Nesting(Generic[Key]):
    """The types of one file. ``malformed`` makes the error of what the file says wrong."""

    def __init__(self, malformed: Callable[[str], ImageError]) -> None:
        self._malformed = malformed
        self._open = 0  # types that are being made, each inside of the one before
        self._below = 0  # how many types are in each other in what the innermost of them is made of
        self._made: dict[Key, tuple[Type, int]] = {}  # with how many are in each other in it

    def of(self, key: Key, make: Callable[[], Type]) -> Type:
        """The type of that key, which ``make`` makes of others by asking here. Raises ImageError."""
        if key not in self._made:
            self._made[key] = self._new(make)
        made, height = self._made[key]
        if self._open + height > DEEPEST:
            raise self._malformed("types in types, without an end")
        self._below = max(self._below, height)
        return made

    def deeper(self, by: int, what: str) -> None:
        """The type that is being made is ``by`` levels in itself. Raises ImageError."""
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

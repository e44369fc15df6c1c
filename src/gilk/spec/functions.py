# SPDX-License-Identifier: LGPL-2.1-or-later
"""Patterns of functions, ``[IMAGE:]FUNCTION``, two shell globs: for scopes, events, strategies, scans and points."""

from __future__ import annotations

import re

from gilk.errors import UsageError
from gilk.values import dataclass

# The last single colon ends IMAGE: names of functions in C++ have pairs of colons.
_FUNCTIONS = re.compile(r"(?:(?P<image>.+)(?<!:):(?!:))?(?P<function>(?:[^:]|::)*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FunctionPattern:
    """A pattern of functions. An empty ``image`` has a meaning that depends on the command: the main program, or any
    image.
    """

    image: str
    function: str

    def __str__(self) -> str:
        return f"{self.image}:{self.function}" if self.image else self.function


def parse(text: str) -> FunctionPattern:
    """The pattern in ``text``; ``IMAGE:`` means all functions of an image. Raises UsageError `bad-point`."""
    found = split(text)
    if found is None or not text:
        raise UsageError("bad-point", f"{text!r} is not [IMAGE:]FUNCTION", "for example 'libfoo*:' or 'parse_*'")
    image, function = found
    return FunctionPattern(image, function or "*")


def split(text: str) -> tuple[str, str] | None:
    """IMAGE and FUNCTION, either of which may be ''; None for text with colons in other places."""
    match = _FUNCTIONS.fullmatch(text)
    return None if match is None else (match["image"] or "", match["function"])

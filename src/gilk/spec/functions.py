# SPDX-License-Identifier: LGPL-2.1-or-later
"""``[IMAGE:]FUNCTION``, two shell globs: the functions of scopes, events, strategies, scans and points."""

from __future__ import annotations

import re

from gilk.errors import UsageError
from gilk.values import dataclass

# The last colon that is not one of a pair ends IMAGE: C++ has pairs in names of functions.
_FUNCTIONS = re.compile(r"(?:(?P<image>.+)(?<!:):(?!:))?(?P<function>(?:[^:]|::)*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FunctionPattern:
    """``image`` '' is for the command to say: the main program, or any image."""

    image: str
    function: str

    def __str__(self) -> str:
        return f"{self.image}:{self.function}" if self.image else self.function


def parse(text: str) -> FunctionPattern:
    """``IMAGE:`` is all functions of an image. Raises UsageError `bad-point`."""
    found = split(text)
    if found is None or not text:
        raise UsageError("bad-point", f"{text!r} is not [IMAGE:]FUNCTION", "for example 'libfoo*:' or 'parse_*'")
    image, function = found
    return FunctionPattern(image, function or "*")


def split(text: str) -> tuple[str, str] | None:
    """IMAGE and FUNCTION, either of which may be ''; None for what has colons in other places."""
    match = _FUNCTIONS.fullmatch(text)
    return None if match is None else (match["image"] or "", match["function"])

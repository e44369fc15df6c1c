# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points as users write them: ``[IMAGE:]FUNCTION:WHERE``, or ``[IMAGE:]FILE:LINE`` of the source."""

from __future__ import annotations

import re

from gilk.errors import UsageError
from gilk.spec import functions
from gilk.values import dataclass

_WHERE = r"entry|return|blocks|blocks-post|@\d+:pre|@\d+:post|\+0x[0-9a-fA-F]+|\+\d+"
_SPEC = re.compile(rf"(?P<functions>.+):(?P<where>{_WHERE})", re.DOTALL)
# A file has a dot or a slash in its name; a number alone is no WHERE, so a file is not mistaken for a function.
_LINE = re.compile(r"(?:(?P<image>.+)(?<!:):(?!:))?(?P<file>[^:]*[./][^:]*):(?P<line>[1-9]\d{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed request; ``image`` and ``function`` are shell globs, and an empty image means the main program.

    If a line of the source is meant, ``function`` is the file, and ``where`` the number of the line.
    """

    image: str
    function: str
    where: str

    @property
    def line(self) -> int:
        """The number of the line that is meant, 0 if a function is."""
        return int(self.where) if self.where.isdecimal() else 0

    def __str__(self) -> str:
        return f"{functions.FunctionPattern(self.image, self.function)}:{self.where}"


def parse(text: str) -> Spec:
    """The points that ``text`` names. Raises UsageError `bad-point`."""
    line = _LINE.fullmatch(text)
    if line is not None:
        return Spec(line["image"] or "", line["file"], line["line"])
    match = _SPEC.fullmatch(text)
    image, function = (match and functions.split(match["functions"])) or ("", "")
    if match is None or not function:
        wheres = "WHERE is entry, return, blocks, blocks-post, @N:pre, @N:post or +0x1c"
        hint = f"{_meant(text)}{wheres}; FILE:LINE is a line of the source"
        raise UsageError("bad-point", f"{text!r} is not [IMAGE:]FUNCTION:WHERE", hint)
    return Spec(image, function, match["where"])


def _meant(text: str) -> str:
    """A guess at the point that was meant, for a hint: ``text`` with a WHERE that is nearly its own, or its entry."""
    import difflib

    rest, _, last = text.rpartition(":")
    near = difflib.get_close_matches(last, ("entry", "return", "blocks", "blocks-post"), 1) if rest else []
    whole = f"{rest}:{near[0]}" if near else f"{text.rstrip(':')}:entry"
    return f"perhaps {whole}; " if _SPEC.fullmatch(whole) else ""


def every_entry(text: str) -> Spec:
    """The entries of ``[IMAGE:]FUNCTION``, for commands that choose points by other means. Raises UsageError
    `bad-point`.
    """
    found = functions.parse(text)
    return Spec(found.image, found.function, "entry")


def without_where(text: str) -> str | None:
    """The functions that ``text`` names if it is a point; None for any other text."""
    match = _SPEC.fullmatch(text)
    return match["functions"] if match is not None else None

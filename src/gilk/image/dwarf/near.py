# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names in debug information that are like one that was typed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from gilk.image.dwarf.sections import Sections

_APART: Final = 2  # how many letters longer or shorter a similar name may be
_MOST_NAMES: Final = 50_000  # the most names that are compared
_MOST_BYTES: Final = 1 << 27  # the most bytes of names that are searched


def near(sections: Sections, name: str, most: int) -> list[str]:
    """At most ``most`` names that are like ``name`` but not the same, the likest first: of functions, types, variables
    and whatever else has a name.
    """
    if not name.isascii():
        return []
    tables = [sections.strings] + ([sections.shared.strings] if sections.shared is not None else [])
    found = dict.fromkeys(islice((each for table in tables for each in _words(table, name)), _MOST_NAMES))
    return [each for each in difflib.get_close_matches(name, found, most + 1, 0.75) if each != name][:most]


def _words(table: bytes, name: str) -> Iterator[str]:
    """The names of about the length of ``name`` in a table of strings, each of which ends in a NUL."""
    shortest, longest = max(len(name) - _APART, 1), len(name) + _APART
    pattern = re.compile(rb"(?:^|(?<=\0))\w{%d,%d}(?=\0)" % (shortest, longest))
    return (match[0].decode("ascii") for match in pattern.finditer(table, 0, _MOST_BYTES))

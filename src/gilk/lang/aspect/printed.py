# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of a ``report`` in the model: printf's conversions of integers, characters, texts and pointers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gilk.lang.aspect.cells import Cell

_CONVERSION = re.compile(
    r"%(?P<form>[-+ 0#]{0,5}\d{0,3}(?:\.\d{0,3})?)(?:hh|h|ll|l|z|j|t)?(?P<letter>pS|[diuxXocspfge%])"
)


def printed(form: str, cells: Sequence[Cell]) -> str:
    """``form`` with its conversions replaced by the values of ``cells``; a conversion without a value stays
    as it is.
    """
    left = list(cells)

    def one(found: re.Match[str]) -> str:
        if found["letter"] == "%":
            return "%"
        return _converted(found["form"], found["letter"], left.pop(0)) if left else found[0]

    return _CONVERSION.sub(one, form)


def _converted(form: str, letter: str, cell: Cell) -> str:
    value = cell.value
    if isinstance(value, str) or letter == "s":
        return f"%{form.lstrip('0')}s" % value
    if letter in ("p", "pS"):
        return hex(int(value))
    if letter in "fge":
        return f"%{form}{letter}" % value
    if letter == "c":
        return f"%{form}c" % chr(int(value) & 255)
    number = int(value) & (1 << 64) - 1 if letter in "uxXo" and int(value) < 0 else int(value)
    return f"%{form}{letter.replace('u', 'd')}" % number

# SPDX-License-Identifier: LGPL-2.1-or-later
"""C's printf for one value: flags, width and precision applied to integers, floats and strings."""

from __future__ import annotations

import math

from gilk.lang.d.printf import Flags
from gilk.values import dataclass

_BASES = {"o": "o", "x": "x", "X": "X", "u": "d", "d": "d", "i": "d"}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The flags, width and precision of a conversion. A negative ``width`` aligns to the left. ``precision`` is None if
    it is not given.
    """

    flags: Flags = Flags.NONE
    width: int = 0
    precision: int | None = None

    @property
    def left(self) -> bool:
        return self.width < 0 or Flags.LEFT in self.flags

    def pad(self, text: bytes) -> bytes:
        return text.ljust(abs(self.width)) if self.left else text.rjust(abs(self.width))


def integer(shape: NumberFormat, letter: str, value: int) -> bytes:
    """The text of an integer. ``letter``: d, i, u, o, x or X. With the last four the value must not be negative."""
    digits = format(abs(value), _BASES[letter]) if value or shape.precision != 0 else ""
    digits = digits.rjust(shape.precision or 0, "0")
    lead = _sign(shape, value) if letter in "di" else ""
    if Flags.ALTERNATE in shape.flags:
        if letter == "o" and not digits.startswith("0"):
            digits = "0" + digits
        if letter in "xX" and value:
            lead = "0" + letter
    if Flags.ZERO in shape.flags and not shape.left and shape.precision is None:
        digits = digits.rjust(shape.width - len(lead), "0")
    return shape.pad((lead + digits).encode())


def floating(shape: NumberFormat, letter: str, value: float) -> bytes:
    """The text of a float. ``letter``: e, E, f, g or G."""
    marks = "#" if Flags.ALTERNATE in shape.flags else ""
    precision = 6 if shape.precision is None else shape.precision
    digits = f"%{marks}.{precision}{letter}" % abs(value)
    lead = _sign(shape, math.copysign(1, value))
    if Flags.ZERO in shape.flags and not shape.left and math.isfinite(value):
        digits = digits.rjust(shape.width - len(lead), "0")
    return shape.pad((lead + digits).encode())


def string(shape: NumberFormat, text: bytes) -> bytes:
    return shape.pad(text if shape.precision is None else text[: shape.precision])


def _sign(shape: NumberFormat, value: float) -> str:
    return "-" if value < 0 else "+" if Flags.PLUS in shape.flags else " " if Flags.SPACE in shape.flags else ""

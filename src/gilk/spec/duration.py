# SPDX-License-Identifier: LGPL-2.1-or-later
"""Durations as users write them in any command or experiment file: ``200ms``, ``1.5min``. D has DTrace's units."""

from __future__ import annotations

import re
from fractions import Fraction

#: The ns of each unit; a bare number is in seconds.
UNITS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?"
_DURATION = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>ns|us|ms|s|min|m|h)?", re.ASCII)
_LONGEST = 64  # the most characters of a duration


def nanoseconds(text: str) -> int | None:
    """The duration in ns, rounded; None for text that is no duration, such as a negative one."""
    match = _DURATION.fullmatch(text) if len(text) <= _LONGEST else None
    return None if match is None else round(Fraction(match["number"]) * UNITS[match["unit"] or ""])


def seconds(text: str) -> float | None:
    """The duration in seconds; None for text that is no duration."""
    found = nanoseconds(text)
    return None if found is None else found / 1e9


def text(duration: int) -> str:
    """A duration in ns as text, in the largest unit in which it is a whole number: ``1500us``."""
    unit = next(unit for unit in ("s", "ms", "us", "ns") if duration % UNITS[unit] == 0)
    return f"{duration // UNITS[unit]}{unit}"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The times between which an instrument is in, as requests have them."""

from __future__ import annotations

from typing import Any, Final

from gilk.web.children import ToldError

_LONGEST: Final = 999_999  # the most seconds of a start or a stop


def interval(what: str, start: Any, stop: Any) -> tuple[float, float | None]:
    """The start and the stop of the instrument ``what`` in seconds, to the millisecond; a stop of None is the end.

    Raises ToldError `bad-request`.
    """
    first, last = _seconds(start), None if stop is None else _seconds(stop)
    if last is not None and last <= first:
        raise ToldError("bad-request", f"{what} stops after {last:g} s, and starts after {first:g} s")
    return first, last


def _seconds(value: Any) -> float:
    """A time in seconds, to the millisecond. Raises ToldError `bad-request`."""
    if type(value) not in (int, float) or not 0 <= value <= _LONGEST:
        raise ToldError("bad-request", f"times are from 0 to {_LONGEST} seconds")
    return round(float(value), 3)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pads text to columns. Widths count bytes, as in C."""

from __future__ import annotations

from gilk.trace.d.values import encoded


def right(text: str | bytes, width: int) -> bytes:
    return (encoded(text) if isinstance(text, str) else text).rjust(width)


def left(text: str | bytes, width: int) -> bytes:
    return (encoded(text) if isinstance(text, str) else text).ljust(width)

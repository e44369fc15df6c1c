# SPDX-License-Identifier: LGPL-2.1-or-later
"""Columns. Widths count bytes, as C's do."""

from __future__ import annotations

from gilk.trace.d.values import encoded


def right(text: str | bytes, width: int) -> bytes:
    return (encoded(text) if isinstance(text, str) else text).rjust(width)


def left(text: str | bytes, width: int) -> bytes:
    return (encoded(text) if isinstance(text, str) else text).ljust(width)

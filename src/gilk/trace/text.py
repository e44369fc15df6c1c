# SPDX-License-Identifier: LGPL-2.1-or-later
"""Text as tables and terminals take it."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text with halves of surrogate pairs written out as escapes: no table holds them, and no terminal shows them.
    Names of files, threads and functions that are not UTF-8 have them in place of their other bytes."""
    return text.encode("utf-8", "backslashreplace").decode()

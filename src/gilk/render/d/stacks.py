# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks: a line for each frame, below the line of the record."""

from __future__ import annotations

from collections.abc import Sequence

INDENT = 14  # the option stackindent


def block(lines: Sequence[bytes], indent: int = INDENT) -> bytes:
    return b"\n" + b"".join(b" " * indent + line + b"\n" for line in lines)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks: a line a frame, below the line they were traced on."""

from __future__ import annotations

from collections.abc import Sequence

INDENT = 14  # the option stackindent


def block(lines: Sequence[bytes], indent: int = INDENT) -> bytes:
    return b"\n" + b"".join(b" " * indent + line + b"\n" for line in lines)

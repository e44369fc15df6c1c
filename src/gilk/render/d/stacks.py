# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks: a line a frame, below the line they were traced on; and what a frame is called."""

from __future__ import annotations

from collections.abc import Sequence

INDENT = 14  # the option stackindent


def block(lines: Sequence[bytes], indent: int = INDENT) -> bytes:
    return b"\n" + b"".join(b" " * indent + line + b"\n" for line in lines)


def frame(address: int, module: str = "", function: str = "", offset: int = 0) -> str:
    """``mod`func+0x10``; without what is not known of ``mod`func``, ``mod`0x4010``, ``0x4010``."""
    if not module:
        return f"0x{address:x}"
    if not function:
        return f"{module}`0x{address:x}"
    return f"{module}`{function}" + (f"+0x{offset:x}" if offset else "")


def unresolved(address: int, module: str = "", offset: int = 0) -> str:
    """With the option noresolve: the object, and where in its mapping."""
    return f"{module}:0x{offset:x}" if module else f"0x{address:x}"

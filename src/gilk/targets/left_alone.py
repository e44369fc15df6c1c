# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells the runtime in a target that no client will come back, so that threads take the buffers of those that have
ended (native/runtime/claim.c)."""

from __future__ import annotations

from gilk.targets.memory import Memory

_ALONE = 116  # struct gilk_control: alone


def leave_alone(memory: Memory, control: int) -> None:
    """Set `alone` in the control page at the address ``control``. Raises OSError."""
    memory.write(control + _ALONE, (1).to_bytes(4, "little"))

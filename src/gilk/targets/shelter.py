# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where a borrowed thread can be led back from (haven.py)."""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True)
class Shelter:
    """``code`` is rt_sigreturn(2); a frame has room from ``low`` to ``high``."""

    code: int
    low: int
    high: int

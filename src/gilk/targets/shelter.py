# SPDX-License-Identifier: LGPL-2.1-or-later
"""A place from which a borrowed thread can be led back (haven.py)."""

from __future__ import annotations

from gilk.values import dataclass


@dataclass(frozen=True)
class Shelter:
    """``code`` is the address of an rt_sigreturn(2); a frame has room from ``low`` to ``high``."""

    code: int
    low: int
    high: int

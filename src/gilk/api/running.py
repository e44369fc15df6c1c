# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that run, as one sees them without attaching to them; it is light, for programs that must start at once."""

from __future__ import annotations

from gilk.targets.forked import forked_with
from gilk.targets.selecting import Seen, chosen, look_at, processes

__all__ = ["Seen", "chosen", "forked_with", "look_at", "processes"]

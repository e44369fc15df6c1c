# SPDX-License-Identifier: LGPL-2.1-or-later
"""How often a session's process tells the server of its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_EVERY: Final = 0.1  # the seconds between two states that are sent
_REST: Final = 9  # telling may take one part in this many plus one of the time


class Pace:
    """Ten times a second; less often if a state takes long to make, as the counts of many edges do."""

    def __init__(self) -> None:
        self._again = 0.0

    def tell(self, tell: Callable[[], None]) -> None:
        """Call ``tell``, if it is time."""
        began = time.monotonic()
        if began < self._again:
            return
        tell()
        took = time.monotonic() - began
        self._again = began + max(_EVERY, (_REST + 1) * took)

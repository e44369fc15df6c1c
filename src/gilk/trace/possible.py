# SPDX-License-Identifier: LGPL-2.1-or-later
"""How often something can have happened at most: what a counter in shared memory says beyond that was not counted."""

from __future__ import annotations

import os
import time

_A_SECOND = 1 << 34  # more instructions than a processor executes in one, whichever
_SLACK = 1.0  # seconds


class Possible:
    """Since this was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def in_a_thread(self) -> int:
        return int((time.monotonic() - self._began + _SLACK) * _A_SECOND)

    @property
    def in_all(self) -> int:
        """On all processors together."""
        return self.in_a_thread * (os.cpu_count() or 1)

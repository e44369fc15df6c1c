# SPDX-License-Identifier: LGPL-2.1-or-later
"""The greatest number of times that something can have happened: a counter in shared memory with a larger value is
wrong.
"""

from __future__ import annotations

import os
import time

_A_SECOND = 1 << 34  # more instructions than any processor executes in a second
_SLACK = 1.0  # in seconds


class Possible:
    """The bounds for events since this object was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def in_a_thread(self) -> int:
        return int((time.monotonic() - self._began + _SLACK) * _A_SECOND)

    @property
    def in_all(self) -> int:
        """The bound for all processors together."""
        return self.in_a_thread * (os.cpu_count() or 1)

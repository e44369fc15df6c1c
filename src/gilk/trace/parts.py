# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of several clients in one process, reached from the blocks that threads have (native/abi/gilk_abi.h, parts).

Threads look for a block of theirs in each when their own has no owner; so whoever comes or goes clears the owners.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gilk.errors import TargetError
from gilk.trace.layout import PARTS, PARTS_AT, Array, Geometry, Shared

#: The number of whoever follows all calls: the same each time, since plans of whole images are kept with it.
OF_TRACE = PARTS - 1


class ClientParts:
    """In the memory object that blocks are claimed in."""

    def __init__(self, geometry: Geometry, buffer: Any) -> None:
        self._shared = Shared(geometry, buffer)
        self._at: Array = np.ndarray((PARTS,), "<u8", buffer, PARTS_AT)
        self._used: set[int] = set()
        self._fence = threading.Lock()

    def add(self, address: int, number: int = 0) -> int:
        """A number for the client that has a control page at ``address``: ``number``, if one is given, which nobody
        has. Raises TargetError `too-many-sessions`."""
        number = number or next((n for n in range(1, OF_TRACE) if n not in self._used), 0)
        if not number:
            raise TargetError(
                "too-many-sessions", f"{OF_TRACE - 1} sessions have memory in the process", "end one of them first"
            )
        self._used.add(number)
        self._at[number] = address
        self.renew()
        return number

    def remove(self, number: int) -> None:
        """Nothing of that client is in force any more."""
        self._at[number] = 0
        self.renew()
        self._used.discard(number)

    def renew(self) -> None:
        """Have every thread look at the parts before it next writes."""
        self._shared.control["generation"] += 1
        with self._fence:  # a locked instruction: what is read now, is read when the others can see the above
            claimed = min(int(self._shared.control["next"]), self._shared.geometry.blocks)
        self._shared.heads["owner"][:claimed] = 0

    @property
    def are_looked_at(self) -> bool:
        """A thread may have found there, just now, a client that has been removed."""
        return bool(self._shared.control["claiming"])

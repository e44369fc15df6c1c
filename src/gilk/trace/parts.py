# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory of several clients in one process, which is reached from the threads' blocks (native/abi/gilk_abi.h,
parts).

Threads look for their block in each client's memory when their own block has no owner; so the owners are cleared
whenever a client comes or goes.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gilk.errors import TargetError
from gilk.trace.layout import PARTS, PARTS_AT, Array, Geometry, Shared

#: The number of the client that follows all calls. It is always the same, as stored plans of whole images contain it.
OF_TRACE = PARTS - 1


class ClientParts:
    """The list of clients in the memory object in which blocks are claimed."""

    def __init__(self, geometry: Geometry, buffer: Any) -> None:
        self._shared = Shared(geometry, buffer)
        self._at: Array = np.ndarray((PARTS,), "<u8", buffer, PARTS_AT)
        self._used: set[int] = set()
        self._fence = threading.Lock()

    def add(self, address: int, number: int = 0) -> int:
        """A number for the client that has a control page at ``address``: ``number``, if that is given, which must be
        free. Raises TargetError `too-many-sessions`.
        """
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
        """Remove a client; none of its instruments may be in force any more."""
        self._at[number] = 0
        self.renew()
        self._used.discard(number)

    def renew(self) -> None:
        """Have every thread look at the list of clients before it next writes."""
        self._shared.control["generation"] += 1
        with self._fence:  # a locked instruction: the reads below come after the store above is visible to others
            claimed = min(int(self._shared.control["next"]), self._shared.geometry.blocks)
        self._shared.heads["owner"][:claimed] = 0

    @property
    def are_looked_at(self) -> bool:
        """Whether a thread may be looking at the list just now, and may have found a client there that has been
        removed.
        """
        return bool(self._shared.control["claiming"])

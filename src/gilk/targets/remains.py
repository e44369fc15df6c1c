# SPDX-License-Identifier: LGPL-2.1-or-later
"""The remains of an abandoned session in a process, from which contexts may have to be led out."""

from __future__ import annotations

from gilk.targets.memory import Memory
from gilk.targets.places import ShownPlaces
from gilk.values import dataclass


@dataclass(frozen=True)
class Remains:
    """The remains: the ranges of the session's ``code``, as (start, end). ``tables``: the addresses of the tables that
    its runtime was given (Workspace.show_places), of ``most`` bytes at the most; there are none where contexts may be
    on stacks of advice. ``switching``: the program switches stacks by itself."""

    code: tuple[tuple[int, int], ...]
    tables: tuple[int, ...]
    most: int
    switching: bool

    def in_code(self, address: int) -> bool:
        return any(low <= address < high for low, high in self.code)

    def shown(self, memory: Memory) -> list[ShownPlaces]:
        """The places that the tables show."""
        return [ShownPlaces(memory, table, self.most) for table in self.tables]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The time that probes have taken, for a session's process; and the costs of instruments, from which that follows.

    python -m gilk.web.costing

prints these costs as JSON, measured if they are not known yet. They are kept in gilk's cache, so that the processes of
sessions find them there, also if they come later.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final, Protocol

from gilk.api.costs import HitCosts, Spent, hit_costs, known_costs
from gilk.errors import GilkError
from gilk.web.frames import told

Json = dict[str, Any]
_EVERY: Final = 1.0  # the seconds between two looks


class Costly(Protocol):
    """A run whose probes take time."""

    costs: HitCosts | None

    def spent(self) -> Spent | None:
        """The time until now."""


class Costing:
    """Looks once a second at the time that the probes of a run have taken."""

    def __init__(self) -> None:
        self._again = 0.0
        self._found: Json | None = None

    def of(self, running: Costly) -> Json | None:
        """The time, as `gilk run --cost --json` has it; None if the costs of its instruments are not known."""
        now = time.monotonic()
        if now >= self._again:
            self._again = now + _EVERY
            self.look(running)
        return self._found

    def look(self, running: Costly) -> None:
        """Look at once."""
        running.costs = running.costs or known_costs()
        spent = running.spent()
        self._found = spent.to_json() if spent is not None and spent.each else None


def main() -> None:
    try:
        found: Json = {"each_ns": dict(hit_costs().ns), "why": ""}
    except GilkError as error:
        found = {"each_ns": None, "why": told(error)["message"]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()

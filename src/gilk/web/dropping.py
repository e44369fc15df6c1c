# SPDX-License-Identifier: LGPL-2.1-or-later
"""The records of sessions, some of which may have been dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def kept_records(states: Iterable[Mapping[str, Any]]) -> int | None:
    """How many records sessions have made that were not dropped. None if one of them has dropped some and does not
    tell how many it has, as D programs do not.
    """
    found = list(states)
    if any(state.get("drops") and "records" not in state for state in found):
        return None
    return sum(int(state.get("records", 0)) for state in found)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings that are at work on this machine: listed, asked, switched and taken out from another process."""

from __future__ import annotations

import time
from typing import Any

from gilk.engines.aspect.control import ask, weavings
from gilk.errors import GilkError, TargetError

__all__ = ["ask", "listed", "remove"]

_OUT = 120.0  # seconds that taking out may take
_TICK = 0.02


def listed() -> list[dict[str, Any]]:
    """By number. One that does not answer in time is there without what it would have said."""
    found = []
    for one in weavings():
        row: dict[str, Any] = {"id": one.pid, "user": one.user}
        try:
            row |= ask(one.pid, {"ask": "list"})
        except GilkError as error:
            if error.slug == "no-such-weaving":
                continue
            row["silent"] = error.message
        found.append(row)
    return found


def remove(pid: int) -> None:
    """Raises UsageError `no-such-weaving`, TargetError `busy`."""
    ask(pid, {"ask": "remove"})
    until = time.monotonic() + _OUT
    while any(one.pid == pid for one in weavings()):
        if time.monotonic() > until:
            message = f"the weaver {pid} has not taken everything out within {_OUT:.0f} s"
            raise TargetError("busy", message, "it goes on trying")
        time.sleep(_TICK)

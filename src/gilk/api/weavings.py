# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings that are at work on this machine: other processes list them, ask them, switch their aspects and take them
out."""

from __future__ import annotations

import time
from typing import Any

from gilk.engines.aspect.abandoned import AbandonedWeaving, abandoned
from gilk.errors import GilkError, TargetError, UsageError
from gilk.session.broker import control
from gilk.session.broker.form import WEAVING, WEAVING_SHOWN

__all__ = ["ask", "listed", "remove"]

_OUT = 120.0  # seconds that a weaving may take to take everything out
_TICK = 0.02


def listed() -> list[dict[str, Any]]:
    """The weavings of this machine, by number; last come abandoned ones, whose weaver has gone.

    A weaving that does not answer in time is listed without the answer; its row has the reason as ``silent``.
    """
    found: list[dict[str, Any]] = []
    for one in control.servers(control.WEAVE):
        row: dict[str, Any] = {"id": one.pid, "user": one.user}
        try:
            row = control.ask(one.pid, {"ask": "list"}, form=WEAVING) | row
        except GilkError as error:
            if error.slug == "no-such-weaving":
                continue
            row["silent"] = error.message
        found.append(row)
    found += ({"id": each.number, "user": each.places[0].user} | each.listed() for each in abandoned())
    return found


def ask(number: int, words: dict[str, Any]) -> dict[str, Any]:
    """The answer of weaving ``number`` to the request ``words``; if its weaver has gone, the answer is made from what
    is in the processes.

    Raises UsageError `no-such-weaving`, `no-such-aspect`, TargetError.
    """
    try:
        return control.ask(number, words, form=WEAVING_SHOWN if words.get("ask") == "show" else {})
    except UsageError as error:
        return _abandoned(number, error).answer(words)


def _abandoned(number: int, error: UsageError) -> AbandonedWeaving:
    """The abandoned weaving of that number. Raises ``error`` if there is none."""
    found = [one for one in abandoned() if one.number == number] if error.slug == "no-such-weaving" else []
    if not found:
        raise error
    return found[0]


def remove(pid: int, when_idle: float | None = None) -> None:
    """Have a weaving take everything out, and wait until it has.

    ``when_idle``: take it out only when no call with advice is under way, and wait at most so many seconds for that; if
    it takes longer, nothing has changed. Raises UsageError `no-such-weaving`, `usage`, TargetError `busy`.
    """
    try:
        _ask_out(pid, when_idle)
    except UsageError as error:
        gone = _abandoned(pid, error)
        if when_idle is not None:
            why = f"the weaver {pid} has gone, and nobody knows which calls are under way"
            raise UsageError("usage", why, "leave out --when-idle") from None
        gone.remove()
        return
    until = time.monotonic() + _OUT
    while control.is_there(pid, control.WEAVE):
        if time.monotonic() > until:
            message = f"the weaver {pid} has not taken everything out within {_OUT:.0f} s"
            raise TargetError("busy", message, "it goes on trying")
        time.sleep(_TICK)


def _ask_out(pid: int, when_idle: float | None) -> None:
    until = time.monotonic() + (when_idle or 0.0)
    while busy := control.ask(pid, {"ask": "remove", "idle": when_idle is not None}).get("busy"):
        if time.monotonic() >= until:
            names = ", ".join(map(str, busy)) if isinstance(busy, list) else str(busy)
            hint = "without --when-idle, calls that are under way go on without advice"
            raise TargetError("busy", f"calls with advice are under way: {names}", hint)
        time.sleep(_TICK)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processes of a session that stand still, for its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from gilk.api.processes import standing_still

MOVED: Final = "its target has executed another program, and the probes went with the old one"


def still(pids: Iterable[int]) -> list[dict[str, Any]]:
    """The processes that a signal or a debugger has stopped, each with its ``pid``, and the debugger's, which is
    ``tracer``, and ``name``; 0 and '' if there is none.
    """
    found = {pid: standing_still(pid) for pid in pids}
    return [{"pid": pid, **asdict(each)} for pid, each in found.items() if each is not None]

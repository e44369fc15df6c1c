# SPDX-License-Identifier: LGPL-2.1-or-later
"""The progress of a run, for display."""

from __future__ import annotations

from collections.abc import Callable

from gilk.values import dataclass


@dataclass
class Progress:
    """The progress of a run: ``seconds`` since it began, and the sums of all sessions. ``what``: the present activity,
    if it changes in the course of the run.
    """

    seconds: float = 0.0
    hits: int = 0
    records: int = 0
    drops: int = 0
    what: str = ""


#: Is called again and again while a run is summed up: what is being done, and whether the file is complete already.
SumTell = Callable[[str, bool], object]


def in_silence(_what: str, _is_filed: bool) -> None:
    """Tell nobody."""

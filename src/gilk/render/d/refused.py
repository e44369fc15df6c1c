# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells what a program does without: the first probes that cannot be enabled by name, and a sum of the others, when a
pattern means more of them than a terminal shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gilk.render.d.printer import Printer
from gilk.trace.d.events import Event, Refused

#: So many are named, each on a line of its own.
NAMED: Final = 20
_WHERE = " at "  # what stands between a reason and the place that it is about


def told_lacking(printer: Printer, lacking: Sequence[Event]) -> str:
    """The text for standard error about all that Consumer.start() returns."""
    refused = [event for event in lacking if isinstance(event, Refused)]
    more = remaining(refused)
    said = [*map(printer.complaint, refused[:NAMED]), printer.messages.error(more) if more else ""]
    return "".join([*said, *(printer.complaint(event) for event in lacking if not isinstance(event, Refused))])


def remaining(refused: Sequence[Refused]) -> str:
    """A sentence about the probes behind the first NAMED: their number, and how many have each reason, the most
    frequent first; '' if there are none."""
    rest = refused[NAMED:]
    if not rest:
        return ""
    reasons = Counter(one.reason.split(_WHERE)[0] for one in rest)
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"{len(rest)} more probes cannot be enabled, which --json names: {told}"

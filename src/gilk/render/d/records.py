# SPDX-License-Identifier: LGPL-2.1-or-later
"""The line of a record: the processor, the probe, and with -F, the depth in the flow of calls.

A record is ``prefix``, then the output of its actions, then ``end``. The flow's state is a value that callers keep, one
for each processor.
"""

from __future__ import annotations

from enum import Enum

from gilk.lang.d.probes import DProbe
from gilk.render.d.columns import left, right
from gilk.render.d.style import Style
from gilk.values import dataclass


class Turn(Enum):
    ENTRY = "->"
    RETURN = "<-"
    NONE = ""


@dataclass(frozen=True, slots=True)
class FlowIndent:
    """The state of the flow of a processor. ``last``: the probe and the clause of the record before on this
    processor.
    """

    indent: int = 0
    last: tuple[int, int] | None = None


def header(style: Style) -> bytes:
    """The line before the first record."""
    if style.flow:
        return b"FUNCTION".ljust(41) + b"\n" if style.testing else b"CPU " + b"FUNCTION".ljust(41) + b"\n"
    if style.quiet:
        return b""
    names = right("FUNCTION:NAME", 32) + b"\n"
    return names if style.testing else b"CPU     ID " + names


def prefix(style: Style, cpu: int, probe: DProbe) -> bytes:
    """The beginning of a record's line, without -F."""
    if style.quiet:
        return b""
    name = right(f"{probe.function}:{probe.name}", 32) + b" "
    return name if style.testing else b"%3d %6d " % (cpu, probe.number) + name


def flow_prefix(style: Style, cpu: int, probe: DProbe, clause: int, flow: FlowIndent) -> tuple[bytes, FlowIndent]:
    """The beginning of a record's line with -F, and the state of the flow afterwards."""
    turn = _turn(probe, clause, flow)
    indent = max(flow.indent - 2, 0) if turn is Turn.RETURN else flow.indent
    if turn is Turn.NONE:
        what = f"| {probe.function}:{probe.name}"
    else:
        arrow = turn.value.replace("-", "=") if probe.provider == "syscall" else turn.value
        what = f" {arrow} {probe.function}"
    line = left(" " * indent + what, 41) + b" "
    after = FlowIndent(indent + 2 * (turn is Turn.ENTRY), (probe.number, clause))
    return (line if style.testing else b"%3d " % cpu + line), after


def end(style: Style) -> bytes:
    """The text behind a record."""
    return b"" if style.quiet else b"\n"


def _turn(probe: DProbe, clause: int, flow: FlowIndent) -> Turn:
    """Whether the record enters or leaves a function. A second clause of the same entry does not indent again."""
    if _named(probe.name, "entry"):
        again = flow.last is not None and flow.last[0] == probe.number and flow.last[1] != clause
        return Turn.NONE if again else Turn.ENTRY
    return Turn.RETURN if _named(probe.name, "return") else Turn.NONE


def _named(name: str, what: str) -> bool:
    """Whether a probe's name is ``what`` itself (``entry``) or ends in it (``method-entry``, but not ``carpentry``)."""
    return name == what or name.endswith(f"-{what}")

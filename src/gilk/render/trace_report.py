# SPDX-License-Identifier: LGPL-2.1-or-later
"""The results of ``gilk trace``, as one value; as JSON for programs and as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from gilk.render.names import named, readable
from gilk.render.programs import summary
from gilk.render.report import RunReport, losses
from gilk.render.text import cell, left_out, listed, plural
from gilk.trace.traced import NEVER, Omitted, TraceDescription, Unended, Unfollowed
from gilk.values import dataclass

_SHOWN = 12  # the most functions left out that are named
_EDGES = ("open", "before")  # trace/flow.py


@dataclass(frozen=True)
class TraceReport:
    """The results. ``functions`` is the number of functions that were made ready, ``activation_ms`` the time that it
    took to lead control to their patches. ``calls`` are numbers by state.

    ``run`` has the results that every run has; its points are those of all functions that were made ready.
    """

    run: RunReport
    traced: TraceDescription
    functions: int
    refused: int
    activation_ms: float
    calls: dict[str, int] = field(default_factory=dict)
    threads: int = 0

    def to_json(self) -> dict[str, Any]:
        trace = self.traced.to_json()
        trace |= {"functions": self.functions, "functions_refused": self.refused, "calls": sum(self.calls.values())}
        trace |= {"states": self.calls, "threads": self.threads}
        report = self.run.to_json() | {"activation_ms": round(self.activation_ms, 3), "trace": trace}
        del report["counts"], report["latency"]
        return report

    def render(self, verbose: bool = False) -> str:
        """Several lines for a person; ends with a newline. ``verbose``: with the state of each call at the edges of the
        trace.
        """
        run = self.run
        text = self._ready() + summary(run.programs) + self._window(verbose) + _omitted(self.traced.omitted)
        text += "".join(f"{line}\n" for line in losses(run.drops, run.lost, run.nested, run.corrupt))
        text += f"{plural(run.records, 'record')} in {cell(run.file)}\n" if run.file else ""
        if run.restored is False:
            text += "the code is NOT what it was before; see the notes\n"
        text += "this is a partial result\n" if run.partial else ""
        return text + "".join(f"note: {named(note)}\n" for note in run.notes)

    def _ready(self) -> str:
        text = f"{plural(self.functions, 'function')} ready, followed within {self.activation_ms:.2f} ms\n"
        if self.refused:
            text += f"{plural(self.refused, 'function')} not followed: {_some(self.traced.unfollowed)}\n"
        if self.traced.unended:
            text += f"{plural(len(self.traced.unended), 'function')} followed without all returns, which are closed by "
            text += f"what comes later: {_some(self.traced.unended)}\n"
        return text

    def _window(self, verbose: bool) -> str:
        traced = self.traced
        if traced.start_ns == NEVER:
            return f"the trace never began: {cell(traced.start_event)} did not come\n"
        calls, ended = sum(self.calls.values()), traced.stop_ns != NEVER
        text = f"from {cell(traced.start_event)} to {cell(traced.stop_event) if ended else 'the end'}"
        text += f": {(traced.stop_ns - traced.start_ns) / 1e6:.3f} ms" if ended else ""
        text += f", {plural(calls, 'call')} in {plural(self.threads, 'thread')}\n"
        found = self.calls if verbose else _at_the_edges(self.calls)
        others = ", ".join(f"{n} {state}" for state, n in found.items() if n and state != "whole")
        return text + (f"not whole: {others}\n" if others else "")


def _at_the_edges(calls: Mapping[str, int]) -> dict[str, int]:
    """The numbers of calls by state, with those that lie across the beginning or the end of the trace added up."""
    edges = sum(calls.get(state, 0) for state in _EDGES)
    return {"at the edges": edges, **{state: n for state, n in calls.items() if state not in _EDGES}}


def _some(functions: Sequence[Unfollowed | Unended]) -> str:
    """The functions, each with the reason; if there are many, the first ones."""
    return listed([f"{readable(each.function)} of {each.image} ({each.reason})" for each in functions], _SHOWN)


def _omitted(omitted: Sequence[Omitted]) -> str:
    if not omitted:
        return ""
    text = f"{plural(len(omitted), 'function')} left out, called too often (--all follows them):\n"
    for each in omitted[:_SHOWN]:
        text += f"  {named(each.function)} of {cell(each.image)} {left_out(each.calls)}\n"
    return text + (f"  and {len(omitted) - _SHOWN} more\n" if len(omitted) > _SHOWN else "")

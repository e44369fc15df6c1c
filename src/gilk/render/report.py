# SPDX-License-Identifier: LGPL-2.1-or-later
"""The results of a run, as one value; as JSON for programs and as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from gilk.render import programs, stacks
from gilk.render.histogram import Histogram
from gilk.render.names import named, readable_in
from gilk.render.text import cell, nanoseconds, plural, table
from gilk.trace.probes import Inlined, RefusedPoint, by_function
from gilk.trace.programs import ProgramOutcome
from gilk.trace.spent import Spent
from gilk.trace.stacks import CountedStack
from gilk.values import dataclass

_TOP = 20  # the most rows of a table of counts
_FUNCTIONS = 10  # the most histograms
_REFUSED = 10  # the most refused points that are named


@dataclass(frozen=True)
class RunReport:
    """The results of a run. `asked`, `spliced` and `refused` are numbers of points; `refused_points` are the refused
    ones, which are not in `counts`. `activation_ms` is the time that it took to splice the others. `restored` tells
    whether the live code is the same as before, None if it could not be compared (the target ended before). `partial`:
    something ended before its time. `latency` is by function, times in ns. `programs` are those of a followed tree.
    `spent`: what the probes have taken of the processes, None if the costs of instruments are not known.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    records: int = 0
    drops: int = 0
    lost: int = 0
    nested: int = 0
    corrupt: int = 0
    asked: int = 0
    spliced: int = 0
    refused: int = 0
    refused_points: Sequence[RefusedPoint] = ()
    tactics: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, int] = field(default_factory=dict)
    activation_ms: float = 0.0
    restored: bool | None = None
    partial: bool = False
    notes: Sequence[str] = ()
    latency: Mapping[str, Histogram] = field(default_factory=dict)
    file: str = ""
    inlined: Sequence[Inlined] = ()
    programs: Sequence[ProgramOutcome] = ()
    by: str = ""  # counts are also shown by this property: program or process
    stacks: Sequence[CountedStack] = ()
    spent: Spent | None = None

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON object; nothing in it needs a custom encoder."""
        return {
            "counts": dict(self.counts),
            "records": self.records,
            "drops": self.drops,
            "lost": self.lost,
            "nested": self.nested,
            "corrupt": self.corrupt,
            "points": {"asked": self.asked, "spliced": self.spliced, "refused": self.refused},
            "refused_points": [asdict(each) for each in self.refused_points],
            "tactics": dict(self.tactics),
            "refusals": dict(self.refusals),
            "activation_ms": round(self.activation_ms, 3),
            "restored": self.restored,
            "partial": self.partial,
            "notes": list(self.notes),
            "latency": {name: histogram.to_json() for name, histogram in self.latency.items()},
            "file": self.file,
            "inlined": [asdict(each) for each in self.inlined],
            **({"stacks": [asdict(each) for each in self.stacks]} if self.stacks else {}),
            **({"programs": [asdict(each) for each in self.programs]} if self.programs else {}),
            **({"cost": self.spent.to_json()} if self.spent is not None else {}),
        }

    def render(self, terminal: bool | None = None, verbose: bool = False) -> str:
        """Several lines for a person; ends with a newline. ``verbose``: the tactics by which points were spliced are
        included.
        """
        told = self.counts if verbose else by_function(self.counts)
        counts = programs.counts(self.programs, self.by, terminal) if self.by else top_counts(told, terminal)
        parts = [
            self._points(verbose),
            programs.summary(self.programs),
            counts,
            stacks.to_text(self.stacks),
            histograms(self.latency),
            cost(self.spent),
            self._records(),
        ]
        parts += [f"{named(str(each))}, where it is not instrumented\n" for each in self.inlined]
        parts += [f"note: {named(note)}\n" for note in self.notes]
        return "".join(part for part in parts if part)

    def _points(self, verbose: bool) -> str:
        how = ", ".join(f"{number} by {tactic}" for tactic, number in sorted(self.tactics.items()) if number)
        text = f"{self.spliced} of {plural(self.asked, 'point')} instrumented in {self.activation_ms:.1f} ms"
        text += f" ({how})\n" if how and verbose else "\n"
        if self.refused:
            why = "; ".join(f"{number} {reason}" for reason, number in _most_first(self.refusals))
            text += f"{self.refused} refused: {why}\n"
        return text + refused_by_name(self.refused_points)

    def _records(self) -> str:
        told = self.records or self.file or not self.counts  # counts make none
        text = plural(self.records, "record") + (f" in {cell(self.file)}" if self.file else "") + "\n" if told else ""
        text += "".join(f"{line}\n" for line in losses(self.drops, self.lost, self.nested, self.corrupt))
        if self.restored is False:
            text += "the code is NOT what it was before; see the notes\n"
        return text + ("this is a partial result\n" if self.partial else "")


def refused_by_name(points: Sequence[RefusedPoint]) -> str:
    """A line for each refused point; if there are many, for the first ones."""
    text = "".join(f"  {named(each.point)}: {each.reason}\n" for each in points[:_REFUSED])
    return text + (f"  and {len(points) - _REFUSED} more\n" if len(points) > _REFUSED else "")


def top_counts(counts: Mapping[str, int], terminal: bool | None = None) -> str:
    """The highest counts; points that were never reached are not listed, only counted."""
    hit = [(name, number) for name, number in _most_first(counts) if number]
    text = (
        table(("count", "point"), [(number, readable_in(name)) for name, number in hit[:_TOP]], terminal) if hit else ""
    )
    if len(hit) > _TOP:
        text += f"and {plural(len(hit) - _TOP, 'point')} with lower counts\n"
    if len(hit) < len(counts):
        text += f"{plural(len(counts) - len(hit), 'point')} never reached\n"
    return text


def histograms(latency: Mapping[str, Histogram]) -> str:
    """The histograms of the first functions; the others are only counted."""
    text = "".join(histogram.render(readable_in(name)) for name, histogram in list(latency.items())[:_FUNCTIONS])
    if len(latency) > _FUNCTIONS:
        text += f"and {plural(len(latency) - _FUNCTIONS, 'function')} that took less time in all\n"
    return text


def cost(spent: Spent | None) -> str:
    """The time that the probes have taken, with what it follows from; '' if it is not."""
    if spent is None:
        return ""
    text = f"{plural(spent.unknown, 'point')} without a known cost: C, stacks, conditions, the kernel\n"
    text = text if spent.unknown else ""
    if not spent.each:
        return text
    each = ", ".join(f"{name} {ns:.1f}ns" for name, ns in spent.each.items())
    told = f"cost of the probes: about {nanoseconds(round(spent.ns))}, {spent.share:.2%} of a processor"
    return f"{told} (a hit: {each})\n{text}"


def losses(drops: int, lost: int, nested: int, corrupt: int) -> list[str]:
    """The losses of samples, and remedies, in words; [] if nothing is missing."""
    lines = []
    if drops:
        lines.append(
            f"{plural(drops, 'record')} dropped: they came faster than they could be taken; ask for less at once"
        )
    if lost:
        lines.append(f"{plural(lost, 'hit')} lost: more threads at once than there was room for")
    if nested:
        lines.append(
            f"{plural(nested, 'hit')} left out: they came from within an instrument that calls into the program"
        )
    if corrupt:
        lines.append(f"{plural(corrupt, 'ring')} put aside: the program wrote into gilk's own memory")
    return lines


def _most_first(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))

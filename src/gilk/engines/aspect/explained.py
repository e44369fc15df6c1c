# SPDX-License-Identifier: LGPL-2.1-or-later
"""Automata of a file of aspects, and the model's answer to the events of another. No process is needed."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from gilk.engines.aspect.checked import AspectReading, check
from gilk.lang.aspect.automaton import Automaton
from gilk.lang.aspect.deeds import AspectTally, Deed
from gilk.lang.aspect.events import AspectEvent, read_events
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ExplainedAspects:
    """``automata`` are none where the file has errors. ``steps``: each event with what the model did at it; ``counts``
    by aspect. Both are empty without events.
    """

    reading: AspectReading
    automata: tuple[Automaton, ...]
    steps: tuple[tuple[AspectEvent, tuple[Deed, ...]], ...] = ()
    counts: dict[str, AspectTally] = field(default_factory=dict)


def explain(path: Path, events: Path | None = None) -> ExplainedAspects:
    """Raises UsageError bad-events and event-lacks-value; OSError of a file that cannot be read."""
    reading = check(path)
    if reading.check.file is None:
        return ExplainedAspects(reading, ())
    found = automata(reading.check.file)
    if events is None:
        return ExplainedAspects(reading, found)
    listed = read_events(events.read_text("utf-8", "surrogateescape").split("\n"))
    model = AspectModel(found)
    steps = tuple((event, model.step(event)) for event in listed)
    return ExplainedAspects(reading, found, steps, model.counts())

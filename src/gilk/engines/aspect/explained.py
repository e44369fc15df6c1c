# SPDX-License-Identifier: LGPL-2.1-or-later
"""Explanations of a file of aspects: its automata, and what the model does at the events of another file. They need no
process."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from gilk.engines.aspect.checked import AspectReading, check
from gilk.inputs import read_text
from gilk.lang.aspect.automaton import Automaton
from gilk.lang.aspect.deeds import AspectTally, Deed
from gilk.lang.aspect.events import AspectEvent, read_events
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from gilk.values import dataclass

_MOST_EVENTS = 256 << 20  # characters


@dataclass(frozen=True, slots=True)
class ExplainedAspects:
    """A file explained. ``automata`` is empty if the file has errors.

    ``steps``: each event with what the model does at it. ``counts``: by aspect. Both are empty if no events were given.
    """

    reading: AspectReading
    automata: tuple[Automaton, ...]
    steps: tuple[tuple[AspectEvent, tuple[Deed, ...]], ...] = ()
    counts: dict[str, AspectTally] = field(default_factory=dict)


def explain(path: Path, events: Path | None = None) -> ExplainedAspects:
    """Explain a file of aspects, and run its model on the file ``events``, if there is one.

    Raises UsageError `too-long`, `bad-events`, `event-lacks-value`; OSError if a file cannot be read.
    """
    reading = check(path)
    if reading.check.file is None:
        return ExplainedAspects(reading, ())
    found = automata(reading.check.file)
    if events is None:
        return ExplainedAspects(reading, found)
    listed = read_events(read_text(events, _MOST_EVENTS).split("\n"))
    model = AspectModel(found)
    steps = tuple((event, model.step(event)) for event in listed)
    return ExplainedAspects(reading, found, steps, model.counts())

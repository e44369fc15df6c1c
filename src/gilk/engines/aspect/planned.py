# SPDX-License-Identifier: LGPL-2.1-or-later
"""The way in which control would get to advice at each point, planned from files and the process's mappings alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from gilk.engines.scan.count import PROCESS
from gilk.engines.scan.preview import PlannedImage, outcomes
from gilk.engines.scan.subject import Subject
from gilk.session.request import Wanted
from gilk.splice.graph import PointOutcome
from gilk.targets.base import Loaded
from gilk.targets.maps import Mapping, occupied, read_maps
from gilk.targets.process import Process

_NAMED = 5  # refused points in a message
Planned = dict[tuple[Path, int, bool], PointOutcome]


def planned(process: Process, wanted: Iterable[Wanted]) -> Planned:
    """The outcome of each point by the path of its image, its link-time address, and whether it is behind its
    instruction. Raises ImageError, TargetError."""
    of: dict[Loaded, list[Wanted]] = {}
    for one in wanted:
        of.setdefault(one.loaded, []).append(one)
    maps = read_maps(process.pid)
    found = [(loaded, _image(process, maps, loaded, each)) for loaded, each in of.items()]
    return {
        (loaded.path, point.address, point.after): outcome
        for loaded, image in found
        for point, outcome in outcomes(image)
    }


def _image(process: Process, maps: tuple[Mapping, ...], loaded: Loaded, wanted: Sequence[Wanted]) -> PlannedImage:
    first = next((one for one in maps if one.executable and loaded.start <= one.start < loaded.end), None)
    analysis = process.analysis(loaded)
    subject = Subject(loaded.name, loaded.path, first, occupied(maps))
    placed = [(one.function, one.point) for one in wanted]
    return PlannedImage(analysis.image, analysis, partial(subject.ground, analysis, False), PROCESS, placed)


def tactics(found: Planned, wanted: Sequence[Wanted]) -> tuple[tuple[str, int], ...]:
    """How many of the points have each tactic, the most frequent first."""
    there = (found[_key(one)] for one in wanted)
    return tuple(Counter(one.name for one in there if not one.refused).most_common())


def refusal(found: Planned, wanted: Sequence[Wanted]) -> str:
    """The refused points among these, with their reasons; "" if there are none."""
    named = [f"{one.point.label}: {why.name}" for one in wanted if (why := found[_key(one)]).refused]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"not all points can be had: {', '.join(named[:_NAMED])}{more} (advice-refused)" if named else ""


def _key(one: Wanted) -> tuple[Path, int, bool]:
    return one.loaded.path, one.point.address, one.point.after

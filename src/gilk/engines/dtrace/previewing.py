# SPDX-License-Identifier: LGPL-2.1-or-later
"""Previews: the probes that a D program would put into a process or kernel, at how many places, and which are refused.

The plan is that of a session (engines/scan/preview.py), but nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.instruments import instruments
from gilk.engines.scan.preview import PlannedImage, image_of, outcomes
from gilk.engines.scan.subject import Subject, subjects
from gilk.errors import UsageError
from gilk.lang.d.probes import DProbe
from gilk.lang.facts import facts
from gilk.providers.probe import ProbeSite
from gilk.splice.graph import PointOutcome
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.machine import MachineView

MOST_PLACES = 50_000  # how many places are planned at most
MOST_IN_KERNEL = 10_000  # the same in a kernel, of which each function is analysed first


@dataclass(frozen=True, slots=True)
class RefusedProbe:
    """A refused probe. ``reasons``: names of refusals with how many of the probe's ``places`` have them; or one reason
    in words."""

    probe: DProbe
    places: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Previewed:
    """A preview. ``probes``: how many probes fire in the process or kernel; ``own``: how many the clock or the tracing
    itself fires.

    ``places``: how many places in its code, and by ``tactics`` how many of each tactic.
    """

    probes: int
    own: int
    places: int
    tactics: tuple[tuple[str, int], ...]
    refused: tuple[RefusedProbe, ...]


def preview(consumer: Consumer) -> Previewed:
    """Plan a program that has been compiled and has no problems. Raises UsageError `too-many-probes`, TargetError,
    ImageError."""
    enabled = consumer.enabled
    if consumer.machine is not None:
        return _in_kernel(consumer, consumer.machine)
    needs = {clause.number: facts(clause.function) for clause in consumer.compiled.program.clauses}
    made = instruments(enabled, enabled.groups(), needs)
    sites = [(probe, site) for probe, found in enabled.in_process for site in found.sites]
    _check_number(len(sites), MOST_PLACES)
    planned = _planned(consumer, [site for _, site in sites])
    there = [(probe, site) for probe, site in sites if probe not in made.refused]
    places = {_place(site): planned[_place(site)] for _, site in there}
    tactics = Counter(one.name for one in places.values() if not one.refused)
    results = [(probe, planned[_place(site)]) for probe, site in there]
    refused = (*_unfetchable(made.refused, Counter(probe for probe, _ in sites)), *_refused(results))
    return Previewed(len(enabled.in_process), _own(enabled), len(places), tuple(sorted(tactics.items())), refused)


def _own(enabled: Enabled) -> int:
    return sum(1 for number in enabled.clauses if enabled.fires_here(enabled.probes[number]))


def _check_number(places: int, most: int) -> None:
    if places > most:
        what = f"a preview is of {most} places at the most, and the program asks for {places}"
        raise UsageError("too-many-probes", what, "name fewer functions")


def _in_kernel(consumer: Consumer, machine: MachineView) -> Previewed:
    """The preview of a program in a kernel. Tracepoints are no places in its code, nor are functions of processes."""
    from gilk.engines.dtrace.kernel_clauses import KernelClauses  # imported here: few need it
    from gilk.engines.scan.kernel import KernelSubject
    from gilk.engines.scan.preview import of_kernel

    enabled, why = consumer.enabled, dict[DProbe, str]()
    _check_number(sum(made.function is not None and made.call is None for _, made in enabled.in_kernel), MOST_IN_KERNEL)
    clauses = KernelClauses(machine.target, consumer.compiled.program, enabled, consumer.world)
    places = list(clauses.places(why))
    image = of_kernel(KernelSubject(machine.target.link, machine.target))
    image.placed.extend((place.part, place.point) for place in places)
    planned = {(point.address, point.after): outcome for point, outcome in outcomes(image)}
    tactics = Counter(one.name for one in planned.values() if not one.refused)
    results = [(probe, planned[place.point.address, place.point.after]) for place in places for probe in place.probes]
    refused = (*_unfetchable(why, Counter(why)), *_refused(results))
    ways = tuple(sorted(tactics.items()))
    return Previewed(len(enabled.in_kernel), _own(enabled), len(planned), ways, refused)


_Place = tuple[str, int, bool]


def _place(site: ProbeSite) -> _Place:
    return str(site.loaded.path), site.point.address, site.point.after


def _planned(consumer: Consumer, sites: Iterable[ProbeSite]) -> dict[_Place, PointOutcome]:
    """The outcome of each site; there is one plan per image."""
    images: dict[str, PlannedImage] = {}
    known: dict[str, Subject] = {}
    for site in sites:
        path = str(site.loaded.path)
        if path not in images:
            known = known or _subjects(consumer)
            images[path] = image_of(known[path])
        image = images[path]
        span = image.image.span_at(site.part)
        if span is not None:
            image.placed.append((image.analysis.function(span), site.point))
    return {
        (path, point.address, point.after): outcome
        for path, image in images.items()
        for point, outcome in outcomes(image)
    }


def _subjects(consumer: Consumer) -> dict[str, Subject]:
    assert consumer.process is not None
    target = f"pid:{consumer.process.pid}"
    return {str(each.path): each for glob in ("*", "*:*") for each in subjects(target, glob)[0]}


def _unfetchable(refused: dict[DProbe, str], places: Counter[DProbe]) -> Iterable[RefusedProbe]:
    return (RefusedProbe(probe, places[probe], ((why, places[probe]),)) for probe, why in refused.items())


def _refused(results: list[tuple[DProbe, PointOutcome]]) -> Iterable[RefusedProbe]:
    places = Counter(probe for probe, _ in results)
    reasons: dict[DProbe, Counter[str]] = {}
    for probe, outcome in results:
        if outcome.refused:
            reasons.setdefault(probe, Counter())[outcome.name] += 1
    return (RefusedProbe(probe, places[probe], tuple(sorted(why.items()))) for probe, why in reasons.items())

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The outcomes of points that are asked for together, before anything is written.

A plan is made as a session would make it, with a counter at each point: which instrument it is changes how large a
patch is, but not how control gets there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.engines.scan.count import PROCESS
from gilk.engines.scan.subject import Subject, subjects
from gilk.errors import UsageError
from gilk.image import lookup
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.spec.functions import FunctionPattern
from gilk.spec.point import Spec
from gilk.splice import points
from gilk.splice.graph import PointOutcome
from gilk.splice.plan import Want
from gilk.splice.points import Point
from gilk.targets.image import analyse
from gilk.values import dataclass

Placed = tuple[Function, Point]


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A point by the name that a report has for it."""

    point: str
    outcome: PointOutcome


def preview(target: str, wanted: Sequence[tuple[Spec, bool]]) -> tuple[PlannedPoint, ...]:
    """The outcome of every point of an ELF file or of ``pid:N``, in the order asked for, each once.

    The flag says that calls are timed, which takes the returns as well. Raises as scan(), and UsageError
    `no-such-block`, `not-an-instruction`.
    """
    by_image: dict[str, tuple[Subject, Image, Analysis, list[Placed]]] = {}
    for spec, timed in wanted:
        found, function = subjects(target, str(FunctionPattern(spec.image, spec.function)))
        for subject in found:
            if subject.name not in by_image:
                image = load(subject.path)
                by_image[subject.name] = subject, image, analyse(image), []
            _, image, analysis, placed = by_image[subject.name]
            placed += _placed(image, analysis, function, spec.where, timed)
    return tuple(row for group in by_image.values() for row in _planned(*group))


def _placed(image: Image, analysis: Analysis, name: str, where: str, timed: bool) -> Iterator[Placed]:
    if where.isdecimal():
        raise UsageError("no-preview-of-lines", f"{name}:{where} is a line of the source", "name a function instead")
    for span in lookup.spans(image, name):
        function = analysis.function(span)
        if not function.blocks:
            continue
        if where == "return":
            yield from points.returns(image, analysis, function)
        else:
            yield from ((function, point) for point in points.points(image, analysis, function, where))
        if timed:
            yield from points.returns(image, analysis, function)


def _planned(subject: Subject, image: Image, analysis: Analysis, placed: Iterable[Placed]) -> Iterator[PlannedPoint]:
    """One plan for all of them: they may be in each other's way."""
    chosen = {(point.address, point.after, point.label): (function, point) for function, point in placed}
    numbered = list(enumerate(chosen.values()))
    functions = {function.start: function for _, (function, _) in numbered}
    wants: dict[int, list[Want]] = {start: [] for start in functions}
    for number, (function, point) in numbered:
        wants[function.start].append(Want(point.address, point.after, PROCESS.counter(number), number))
    made = PROCESS.plan(subject.ground(analysis), [(functions[start], wants[start]) for start in sorted(wants)])
    tactics = {key: str(tactic) for plan in made.functions for key, tactic in plan.tactics.items()}
    refusals = {key: str(why) for plan in made.functions for key, why in plan.refusals.items()}
    for number, (_, point) in numbered:
        known = tactics.get(number)
        yield PlannedPoint(point.label, PointOutcome(known or refusals[number], known is None))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Previews of points that are wanted together: the outcome of each, before anything is written.

The plan is that of a session with a counter at each point. The instrument affects how large a patch is, but not how
control gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.engines.scan.count import PROCESS, Planning
from gilk.engines.scan.lines import line_subjects, no_lines_in_kernel
from gilk.engines.scan.subject import KERNEL, Subject, subjects
from gilk.image import lookup
from gilk.image.elf import load
from gilk.image.model import FunctionSpan, Image
from gilk.runs.strategy import Chosen, in_functions
from gilk.session.request import Builtin, Request
from gilk.spec.functions import FunctionPattern
from gilk.spec.point import Spec
from gilk.splice import points
from gilk.splice.graph import PointOutcome
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Want
from gilk.splice.points import Point
from gilk.targets.base import Loaded
from gilk.targets.image import analyse
from gilk.targets.lines import at_line
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.scan.kernel import KernelSubject

Placed = tuple[Function, Point]


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A point, by the name that it has in reports, and its outcome."""

    point: str
    outcome: PointOutcome


@dataclass(frozen=True)
class PlannedImage:
    """An image with what planning needs, and the points that are wanted in it."""

    image: Image
    analysis: Analysis
    ground: Callable[[], PatchContext]
    planning: Planning
    placed: list[Placed]


def preview(
    target: str, wanted: Sequence[Request | Chosen], kernel: KernelSubject | None = None
) -> tuple[PlannedPoint, ...]:
    """The outcome of every wanted point, in an ELF file, in ``pid:N`` or in ``kernel``, in the order asked for, each
    once.

    The instrument `time` needs the returns as well. ``kernel``: the kernel that is meant, if it is not this machine's.
    Raises as scan(), and UsageError `no-such-block`, `not-an-instruction`, `bad-strategy`, and for lines as
    targets/lines.py:at_line.
    """
    images: dict[str, PlannedImage] = {}
    for asked in wanted:
        if asked.spec.line:
            _place_line(target, asked.spec, images)
            continue
        for each, spans in _meant(target, asked.spec, images, kernel):
            each.placed.extend(
                _chosen(each, spans, asked) if isinstance(asked, Chosen) else _placed(each, spans, asked)
            )
    return tuple(row for each in images.values() for row in _planned(each))


def image_of(subject: Subject) -> PlannedImage:
    """An image of a process or a file, without wanted points. Raises ImageError."""
    image = load(subject.path)
    analysis = analyse(image)
    return PlannedImage(image, analysis, partial(subject.ground, analysis), PROCESS, [])


def _meant(
    target: str, spec: Spec, images: dict[str, PlannedImage], kernel: KernelSubject | None
) -> Iterator[tuple[PlannedImage, list[FunctionSpan]]]:
    if target == KERNEL:
        yield _of_kernel(spec, images, kernel)
        return
    for subject in subjects(target, str(FunctionPattern(spec.image, spec.function)))[0]:
        each = _kept(subject, images)
        yield each, lookup.spans(each.image, spec.function)


def _kept(subject: Subject, images: dict[str, PlannedImage]) -> PlannedImage:
    if subject.name not in images:
        images[subject.name] = image_of(subject)
    return images[subject.name]


def _place_line(target: str, spec: Spec, images: dict[str, PlannedImage]) -> None:
    """Add the points of a line of the source to the images that have it."""
    if target == KERNEL:
        raise no_lines_in_kernel(spec)
    for subject in line_subjects(target, spec):
        each = _kept(subject, images)
        each.placed.extend(at_line(each.image, each.analysis, spec.function, spec.line))


def _of_kernel(
    spec: Spec, images: dict[str, PlannedImage], kernel: KernelSubject | None
) -> tuple[PlannedImage, list[FunctionSpan]]:
    """The kernel as one image, with the functions that a point means; ``kernel`` in a point means the core and all
    modules."""
    from gilk.engines.scan import kernel as survey_kernel  # imported here: few need it

    if KERNEL not in images:
        images[KERNEL] = of_kernel(kernel or survey_kernel.KernelSubject(survey_kernel.LocalLink()))
    return images[KERNEL], lookup.spans(images[KERNEL].image, spec.function)


def of_kernel(subject: KernelSubject) -> PlannedImage:
    """A kernel with its modules as one image, without wanted points."""
    from gilk.engines.scan.kernel import PLANNING  # imported here, as above

    return PlannedImage(subject.kernel.image, subject.analysis, subject.ground, PLANNING, [])


@dataclass(frozen=True, eq=False)
class ImageCode:
    """An image as if it were a target of its own (Code): strategies look points up in it."""

    there: PlannedImage

    @property
    def who(self) -> str:
        return self.there.image.name

    def loaded(self) -> tuple[Loaded, ...]:
        return (Loaded(Path(self.there.image.name), 0, 0, 0, False),)

    def image(self, _path: Path) -> Image:
        return self.there.image

    def analysis(self, _loaded: Loaded) -> Analysis:
        return self.there.analysis


def _chosen(target: PlannedImage, spans: Iterable[FunctionSpan], chosen: Chosen) -> Iterator[Placed]:
    """The points that a strategy chooses."""
    code = ImageCode(target)
    (loaded,) = code.loaded()
    functions = (target.analysis.function(span) for span in spans)
    found = in_functions(code, ((loaded, function) for function in functions if function.blocks), chosen)
    return ((each.function, each.point) for each in found)


def _placed(target: PlannedImage, spans: Iterable[FunctionSpan], asked: Request) -> Iterator[Placed]:
    image, analysis, where = target.image, target.analysis, asked.spec.where
    for span in spans:
        function = analysis.function(span)
        if not function.blocks:
            continue
        if where == "return":
            yield from points.returns(image, analysis, function)
        else:
            yield from ((function, point) for point in points.points(image, analysis, function, where))
        if asked.instrument == Builtin.TIME:
            yield from points.returns(image, analysis, function)


def _planned(target: PlannedImage) -> Iterator[PlannedPoint]:
    return (PlannedPoint(point.label, outcome) for point, outcome in outcomes(target))


def outcomes(target: PlannedImage) -> Iterator[tuple[Point, PointOutcome]]:
    """The outcome of each wanted point. All are in one plan, since they may be in each other's way."""
    chosen = {(point.address, point.after, point.label): (function, point) for function, point in target.placed}
    numbered = list(enumerate(chosen.values()))
    functions = {function.start: function for _, (function, _) in numbered}
    wants: dict[int, list[Want]] = {start: [] for start in functions}
    for number, (function, point) in numbered:
        counter = target.planning.counter(number)
        wants[function.start].append(Want(point.address, point.after, counter, number))
    made = target.planning.plan(target.ground(), [(functions[start], wants[start]) for start in sorted(wants)])
    tactics = {key: str(tactic) for plan in made.functions for key, tactic in plan.tactics.items()}
    refusals = {key: str(why) for plan in made.functions for key, why in plan.refusals.items()}
    for number, (_, point) in numbered:
        known = tactics.get(number)
        yield point, PointOutcome(known or refusals[number], known is None)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The points of a target at which code of a line of the source begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.engines.scan.subject import KERNEL, Subject, subjects
from gilk.engines.scan.symbols import TargetImage
from gilk.errors import UsageError
from gilk.image.elf import load
from gilk.spec import image as image_names
from gilk.spec.functions import FunctionPattern
from gilk.spec.point import Spec
from gilk.targets.image import analyse
from gilk.targets.lines import at_line, has_line
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A point at which code of a line begins, ``offset`` bytes behind the link-time address ``function``, at which its
    function starts.
    """

    image: TargetImage
    function: int
    offset: int


def line_points(target: str, images: Sequence[TargetImage], spec: Spec) -> Iterator[LinePoint]:
    """The points of a line in those of ``images``, which are of ``target``, that have code of it; the main program is
    the image without a pattern.

    Raises as targets/lines.py:at_line, UsageError `no-such-image` if ``spec`` names none of the images, ImageError.
    """
    if target == KERNEL:
        raise no_lines_in_kernel(spec)
    meant = [each for each in images if _is_meant(each, spec.image)]
    if not meant:
        known = ", ".join(each.name for each in images)
        raise UsageError("no-such-image", f"no image matches {spec.image!r}", f"there are: {known}")
    having_it = [each for each in meant if has_line(each.file, spec.function, spec.line)]
    for each in having_it or meant[:1]:
        image = load(each.file)
        for function, point in at_line(image, analyse(image), spec.function, spec.line):
            yield LinePoint(each, function.start, point.address - function.start)


def line_subjects(target: str, spec: Spec) -> list[Subject]:
    """The images of a file or a process that have the line; the first that is meant if none has. Raises as
    subjects().
    """
    meant = subjects(target, str(FunctionPattern(spec.image, "*")))[0]
    return [each for each in meant if has_line(each.path, spec.function, spec.line)] or meant[:1]


def no_lines_in_kernel(spec: Spec) -> UsageError:
    """The refusal of a line in a kernel."""
    return UsageError(
        "no-line-table", f"{spec}: lines are those of processes and files", "name a function of the kernel"
    )


def _is_meant(image: TargetImage, pattern: str) -> bool:
    return not pattern or image_names.matches(pattern, image.path, "", not image.pattern)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a target by name, which are found fast; and figures of an earlier survey, if there was one."""

from __future__ import annotations

from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from gilk.engines.scan.subject import KERNEL, Subject, subjects
from gilk.engines.scan.table import key_of, recall
from gilk.image.elf import load
from gilk.splice.figures import SurveyTable
from gilk.targets.program import path_there
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.scan.kernel import KernelSubject


@dataclass(frozen=True, slots=True)
class TargetImage:
    """An image of a target. ``pattern`` names it, and no other image of the target, in points; '' for the main program.

    ``file``: where it can be read now; surveys are kept by that.
    """

    name: str
    pattern: str
    path: str
    file: Path


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A function. ``address`` is its link-time address, ``size`` is in bytes."""

    name: str
    address: int
    size: int


def images(target: str, kernel: KernelSubject | None = None) -> tuple[TargetImage, ...]:
    """The images of an ELF file, of ``pid:N`` or of ``kernel``, the main program first. Raises as subjects().

    ``kernel``, here and below: the kernel that is meant, if it is not this machine's.
    """
    if target == KERNEL:
        names = sorted(set((kernel or _kernel()).kernel.owners), key=lambda name: (name != KERNEL, name))
        return tuple(TargetImage(name, name, name, Path("/proc/kcore")) for name in names)
    found = subjects(target, "*")[0]
    if target.startswith("pid:"):
        found += [each for each in subjects(target, "*:*")[0] if each.path != found[0].path]
    names = [each.name for each in found]
    return tuple(_image(number, each, names.count(each.name) > 1) for number, each in enumerate(found))


def _image(number: int, subject: Subject, ambiguous: bool) -> TargetImage:
    path = path_there(subject.mapping.path) if subject.mapping is not None else str(subject.path)
    pattern = escape(path if ambiguous else subject.name) if number else ""
    return TargetImage(subject.name, pattern, path, subject.path)


def symbols(target: str, image: TargetImage, kernel: KernelSubject | None = None) -> tuple[FunctionSymbol, ...]:
    """All functions of one image, in address order. Raises ImageError."""
    if target == KERNEL:
        found = (kernel or _kernel()).kernel
        spans = [span for span, owner in zip(found.image.spans, found.owners, strict=True) if owner == image.name]
    else:
        spans = list(load(image.file).spans)
    return tuple(FunctionSymbol(span.name, span.start, span.end - span.start) for span in spans)


def surveyed(target: str, image: TargetImage, kernel: KernelSubject | None = None) -> SurveyTable | None:
    """The figures of an earlier survey of the whole image, from the cache; None if there was none.

    The figures of a file hold for the file alone, with nothing else mapped.
    """
    if target == KERNEL:
        return _recalled(kernel or _kernel()).get(image.name)
    return recall(key_of(image.file))


class _Known:
    """The figures of a surveyed kernel, by image, read from the cache once."""

    subject: ClassVar[KernelSubject | None] = None
    shares: ClassVar[dict[str, SurveyTable]] = {}


def _recalled(subject: KernelSubject) -> dict[str, SurveyTable]:
    from gilk.engines.scan.kernel import recalled  # imported here: most do not need it

    if not _Known.shares or _Known.subject is not subject:
        _Known.subject = subject
        _Known.shares = {share.name: share.table for share in recalled(subject) or ()}
    return _Known.shares


@lru_cache(maxsize=1)
def _kernel() -> KernelSubject:
    from gilk.engines.scan.kernel import KernelSubject, LocalLink

    return KernelSubject(LocalLink())

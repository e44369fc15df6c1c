# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scans of a kernel: this machine's running one, or one behind a link.

A scan of a whole kernel or module is made by arithmetic on arrays, and kept until the machine boots again or modules
change. For a choice of functions, the planner itself makes plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.kernel import KernelAnalysis
from gilk.cache.arrays import Array, load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.collector import without_collector
from gilk.engines.scan.count import Planning, Progress, analysed, outcomes
from gilk.engines.scan.table import SOURCES, checked
from gilk.errors import UsageError
from gilk.image import lookup
from gilk.image.kernel.build import NAME, KernelImage, kernel, owner_at
from gilk.image.kernel.snapshot import KernelSnapshot
from gilk.image.model import FunctionSpan
from gilk.spec import image as image_names
from gilk.spec.functions import FunctionPattern, parse
from gilk.splice.figures import SurveyTable
from gilk.splice.kernel.blocks import Blocks, Instructions
from gilk.splice.kernel.census import Census
from gilk.splice.kernel.host import kernel_context
from gilk.splice.kernel.instrument import KernelCount
from gilk.splice.kernel.planner import plan
from gilk.splice.patch_context import PatchContext
from gilk.splice.tactics.table import OUTCOMES
from gilk.targets.kernel.image import identity, read
from gilk.targets.kernel.link import Link, LocalLink
from gilk.targets.kernel.target import KernelTarget
from gilk.values import dataclass
from gilk.version import VERSION

#: The addresses for patches of plans that are not carried out: between modules and the end of their range.
_ARENA, _ARENA_SIZE = 0xFFFFFFFFE0000000, 256 << 20
_COUNTER: Final = 0x1000  # an offset from GS; its value does not change a plan

PLANNING: Final = Planning(plan, lambda _: KernelCount(_COUNTER))


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a survey about the kernel itself, or about the module of that name."""

    name: str
    path: Path
    table: SurveyTable


class KernelSubject:
    """A kernel that is scanned, and not changed. ``target``: a session's view of it, whose image is the same."""

    def __init__(self, link: Link, target: KernelTarget | None = None) -> None:
        self.link = link
        self._target = target or KernelTarget(link)

    @cached_property
    def kernel(self) -> KernelImage:
        """The kernel's image, with its modules. Raises ImageError, TargetError `kernel-unreadable`."""
        with without_collector():
            return self._target.kernel

    def read(self) -> KernelSnapshot:
        return read(self.link)

    @cached_property
    def analysis(self) -> KernelAnalysis:
        _ = self.kernel  # read here, without the collector
        return self._target.analysis()

    @cached_property
    def identity(self) -> str:
        return identity(self.link)

    def ground(self) -> PatchContext:
        return kernel_context(self.analysis, _ARENA, _ARENA_SIZE)

    def spans(self, spec: FunctionPattern) -> list[FunctionSpan]:
        """The functions that a pattern means. Raises UsageError `no-such-image`, `no-such-function`."""
        owners = self.kernel.owners
        chosen = choose(spec.image, sorted(set(owners)))
        named = lookup.spans(self.kernel.image, spec.function)
        whose = dict(zip((span.start for span in self.kernel.image.spans), owners, strict=True))
        found = [span for span in named if whose[span.start] in chosen]
        if not found:
            raise UsageError("no-such-function", f"{spec.image} has no function {spec.function!r}")
        return found


def choose(pattern: str, names: Sequence[str]) -> frozenset[str]:
    """The names, of the kernel and modules, that match ``pattern``; all, if it is empty. Raises UsageError
    `no-such-image`."""
    found = frozenset(name for name in names if not pattern or image_names.matches(pattern, name))
    if not found:
        raise UsageError("no-such-image", f"no module matches {pattern!r}", f"there are: {', '.join(names)}")
    return found


def survey(subject: KernelSubject, glob: str, progress: Progress) -> tuple[list[Share], bool]:
    """The shares that ``glob`` means, and whether they came from the cache. Raises as survey.scan does."""
    spec = parse(glob)
    if spec.function == "*":
        return _whole(subject, spec.image, progress)
    progress("reading", 0, 1)
    spans = subject.spans(spec)
    with without_collector():
        functions = analysed(subject.analysis, spans, progress)
        for function in functions:
            subject.analysis.liveness(function)  # before a child process is made, which needs it, too
        pre, post = outcomes(subject.analysis, subject.ground, functions, progress, PLANNING)
    table = SurveyTable.of(functions, pre, post)
    starts = {span.start: owner for span, owner in zip(subject.kernel.image.spans, subject.kernel.owners, strict=True)}
    return _shares(table, [starts[function.start] for function in functions]), False


def recalled(subject: KernelSubject) -> list[Share] | None:
    """All shares of an earlier survey, from the cache; None if there is none."""
    kept = load_arrays(_key(subject))
    table = checked(kept) if kept is not None and "owners" in kept else None
    return None if table is None or kept is None else _shares(table, _owners(kept))


def _key(subject: KernelSubject) -> str:
    return f"kernel-{VERSION}-{sources(*SOURCES)}-{subject.identity}"


def _owners(kept: Mapping[str, Array]) -> list[str]:
    return kept["owners"].tobytes().decode().split("\0")


def _whole(subject: KernelSubject, image: str, progress: Progress) -> tuple[list[Share], bool]:
    key = _key(subject)
    kept = load_arrays(key)
    table = checked(kept) if kept is not None and "owners" in kept else None
    known = table is not None
    if table is None or kept is None:
        with without_collector():
            progress("reading", 0, 1)
            snapshot = subject.read()
            progress("decoding", 1, 3)
            found = kernel(snapshot, named=False)
            progress("counting", 2, 3)
            table, owners = _census(found), list(found.owners)
        packed = np.frombuffer("\0".join(owners).encode(), np.uint8)
        store_arrays(key, {"names": table.names, "about": table.about, "counts": table.counts, "owners": packed})
    else:
        owners = _owners(kept)
    chosen = choose(image, sorted(set(owners)))
    return [share for share in _shares(table, owners) if share.name in chosen], known


def _census(found: KernelImage) -> SurveyTable:
    code = Instructions(found, KernelAnalysis(found))
    blocks = Blocks.of(code)
    census = Census(code, blocks)
    spans = found.image.spans
    about = np.zeros((len(spans), 4), np.int64)
    starts = np.array([span.start for span in spans], np.uint64)
    about[:, 0] = starts.view(np.int64)
    about[:, 1] = (np.array([span.end for span in spans], np.uint64) - starts).view(np.int64)
    about[:, 2] = np.bincount(blocks.owner, minlength=len(spans))
    about[:, 3] = census.strict
    sides = [_counted(blocks, side, len(spans)) for side in (census.pre, census.post)]
    names = np.frombuffer("\0".join(span.name for span in spans).encode(), np.uint8)
    return SurveyTable(names, about, np.stack(sides, axis=1))


def _counted(blocks: Blocks, side: NDArray[np.int8], functions: int) -> NDArray[np.int32]:
    """The counts of one side, with a row per function and a column per name of OUTCOMES."""
    cells = blocks.owner * len(OUTCOMES) + side
    counts = np.bincount(cells, minlength=functions * len(OUTCOMES))
    return counts.reshape(functions, len(OUTCOMES)).astype(np.int32)


def _shares(table: SurveyTable, owners: Sequence[str]) -> list[Share]:
    """The shares: the kernel first, then the modules by name."""
    names = sorted(set(owners), key=lambda name: (name != NAME, name))
    numbers = {name: number for number, name in enumerate(names)}
    tables = table.split(np.array([numbers[owner] for owner in owners]), len(names))
    return [Share(name, _path(name), part) for name, part in zip(names, tables, strict=True)]


def _path(name: str) -> Path:
    return Path("/proc/kcore") if name == NAME else Path("/sys/module") / name


__all__ = ["PLANNING", "KernelSubject", "LocalLink", "Share", "owner_at", "survey"]

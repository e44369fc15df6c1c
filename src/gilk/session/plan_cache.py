# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans of whole images that are made once: templates, kept in the cache by a digest of all that they follow from.

To plan a thousand functions takes seconds; to place a template takes milliseconds. There are two kinds: the timing of
all functions of an image, and one C function at the entries of very many. If a probe is alone in its function, only the
address of the called function and its number change from one time to the next.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.cache.arrays import load_arrays, store_arrays
from gilk.cache.key import sources
from gilk.digest import digest
from gilk.image.model import Image
from gilk.session.entry import Entry
from gilk.session.staging import StagedBatch
from gilk.splice.allocator import OutOfSpace
from gilk.splice.instrument import CallWithIid, CallWithValues, Stamp
from gilk.splice.planner import PatchContext
from gilk.splice.template import MalformedTemplate, PlanTemplate, site_bytes
from gilk.splice.template_build import Progress, build_template, entry_points, timings
from gilk.targets.batch import Batch
from gilk.targets.templates import Shape, plans, reference_ground, stand_in
from gilk.targets.workspace import Workspace
from gilk.toolchain.runtime import runtime

TIMING: Final = "timing"
_PLANNERS = ("image", "arch", "analysis", "splice", "targets/templates.py")  # the code that decides what a plan is
_MANY = 500  # functions of one image from which on a template of their entries pays
_NEW = 10  # percent of the functions that the cache may lack

_Called = CallWithIid | CallWithValues
#: Errors upon which there is no template, and functions are planned one by one.
_TOO_MUCH = (OutOfSpace, OverflowError, MemoryError)


# In the cache.


def key(kind: str, image: Image, shape: Shape) -> str:
    """The name of a template in the cache. ``kind``: names the points that it is for, and their instrument. Raises
    CompileError."""
    return f"{kind}-{image.content.hex()}-{shape}-{_runtime()}-{sources(*_PLANNERS)}"


def load(kind: str, image: Image, shape: Shape) -> PlanTemplate | None:
    """The template that the cache has; None if there is none, or if it is malformed or does not fit the image. Raises
    CompileError."""
    arrays = load_arrays(key(kind, image, shape))
    if arrays is None:
        return None
    try:
        template = PlanTemplate.from_arrays(arrays)
    except MalformedTemplate:
        return None
    return template if _fits(template, image) else None


def make_timing(analysis: Analysis, shape: Shape, told: Progress = lambda done, of: None) -> PlanTemplate:
    """Plan the timing of all functions of an image, and keep the template in the cache.

    Raises CompileError, and OutOfSpace, OverflowError if the image is too large for a template.
    """
    part = shape.own
    template = build_template(
        reference_ground(analysis, shape), timings(analysis), lambda row: Stamp(row, part), told=told
    )
    store_arrays(key(TIMING, analysis.image, shape), template.to_arrays())
    return template


def _fits(template: PlanTemplate, image: Image) -> bool:
    """Whether the bytes that the template expects to replace are in executable segments of the image."""
    at, _ = site_bytes(template)
    good = np.zeros(len(at), np.bool_)
    for segment in image.segments:
        if segment.executable and segment.data:
            here = np.flatnonzero((at >= segment.address) & (at < segment.address + len(segment.data)))
            data = np.frombuffer(segment.data, np.uint8)
            good[here] = data[at[here] - segment.address] == template.old[here]
    return bool(good.all())


@functools.cache
def _runtime() -> str:
    made = runtime()
    return digest(made.code + repr(sorted(made.symbols.items())).encode()).hexdigest()[:32]


# For a ledger.


class PlanCache:
    """A cache of plans for functions whose only probe calls one C function, the same for all, at the entry."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def take(self, ground: PatchContext, entries: Iterable[Entry]) -> StagedBatch[Batch] | None:
        """Stage cached plans for some of the entries; returns None if there are none.

        Raises CompileError, and TargetError as the keeper does.
        """
        called, carriers = _alike(entries)
        if called is None or len(carriers) < _MANY:
            return None
        template = self._template(ground, called, carriers.keys())
        if template is None:
            return None
        here = [(unit, *carriers[at]) for unit, at in enumerate(template.unit_start.tolist()) if at in carriers]
        iids, chosen = np.zeros(len(template.unit_start), np.int64), template.whole()
        iids[[unit for unit, *_ in here]] = [iid for *_, iid in here]
        chosen &= np.isin(np.arange(len(chosen)), [unit for unit, *_ in here])
        workspace = self._workspace
        placed = workspace.place(workspace.loaded(ground), template, iids[template.row_unit], chosen, called.function)
        if placed is None or not placed.units.any():
            return None
        of = {unit: entry for unit, entry, _ in here if placed.units[unit]}
        rows = np.flatnonzero(placed.units[template.row_unit]).tolist()
        units = template.row_unit[rows].tolist()
        keys = {row: next(iter(of[unit].wants)) for row, unit in zip(rows, units, strict=True)}
        made = plans(template, placed.new, ground.bias, keys)
        return StagedBatch(placed.number, placed.batch, [(of[unit], unit, plan) for unit, plan in made.items()])

    def _template(self, ground: PatchContext, called: _Called, starts: Iterable[int]) -> PlanTemplate | None:
        """The template from the cache; if too many of ``starts`` are missing in it, a new one for these and its own.
        None if there can be none."""
        image, shape, kind = (
            ground.analysis.image,
            self._workspace.shape,
            f"{type(called).__name__}-{called.clobbers:x}",
        )
        known = load(kind, image, shape)
        asked, had = set(starts), set(known.unit_start.tolist()) if known is not None else set()
        if 100 * len(asked - had) <= _NEW * len(asked):
            return known
        reference = reference_ground(ground.analysis, shape)
        function = stand_in(reference)
        try:
            made = build_template(
                reference, entry_points(ground.analysis, sorted(asked | had)),
                lambda row: replace(called, function=function, iid=row), function,
            )  # fmt: skip
        except _TOO_MUCH:
            return None
        store_arrays(key(kind, image, shape), made.to_arrays())
        return made


def _alike(entries: Iterable[Entry]) -> tuple[_Called | None, dict[int, tuple[Entry, int]]]:
    """The largest group of entries that are alike: their only probe is at the entry and calls the same C function.

    Returns that C function, None if there is no such entry; and by start, the entries, each with the number that its
    instrument passes.
    """
    found: dict[tuple[type[_Called], int, int], dict[int, tuple[Entry, int]]] = defaultdict(dict)
    for entry in entries:
        if len(entry.wants) == 1:
            (want,) = entry.wants.values()
            made = want.instrument
            if want.address == entry.start and not want.after and isinstance(made, _Called):
                found[type(made), made.function, made.clobbers][entry.start] = entry, made.iid
    if not found:
        return None, {}
    kind, function, clobbers = max(found, key=lambda each: len(found[each]))
    return kind(function, 0, clobbers), found[kind, function, clobbers]

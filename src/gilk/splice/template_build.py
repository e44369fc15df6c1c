# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plans the same instruments for many functions of an image, such as the timing of all of them, and makes a
PlanTemplate of the plans.

The splices of a function do not depend on which others are in force (the policy PORTABLE), so any selection of
functions may be put in later.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.image.model import Image
from gilk.splice import points
from gilk.splice.allocator import PAGE, TRAMPOLINE
from gilk.splice.code import PatchCode
from gilk.splice.instrument import Instrument, Stamp
from gilk.splice.plan import FunctionPlan, Patch, Want
from gilk.splice.planner import PatchContext, plan, spare_tails
from gilk.splice.points import Point
from gilk.splice.template import ENTRY, HEAD, RETURN, Array, PlanTemplate, as_words, outcome_of

Progress = Callable[[int, int], None]
#: A function with the probes that it is to have: for each the part that it is in, the point, and its kind.
Probes = tuple[Function, list[tuple[Function, Point, int]]]
_AT_ONCE = 256  # the number of functions planned before their plans are turned into arrays and progress is reported
_FARTHEST = 1 << 31
_SITES = ("site_at", "site_size", "site_leads", "site_tactic", "site_shared", "site_unit")


def timings(analysis: Analysis) -> Iterator[Probes]:
    """Every function that is not a part of another, with the probes that time it."""
    image = analysis.image
    for span in image.spans:
        function = analysis.function(span)
        if not function.blocks or function.whole:
            continue
        probes = [_entry(image, function)]
        probes += [(part, point, RETURN) for part, point in points.returns(image, analysis, function)]
        yield function, probes


def entry_points(analysis: Analysis, starts: Iterable[int]) -> Iterator[Probes]:
    """The functions, or parts of one, that contain the addresses ``starts``, with a probe at the entry of each."""
    image = analysis.image
    for span in filter(None, map(image.span_at, starts)):
        function = analysis.function(span)
        if function.blocks:
            yield function, [_entry(image, function)]


def _entry(image: Image, function: Function) -> tuple[Function, Point, int]:
    return function, points.entry(image.name, function), HEAD if function.loops else ENTRY


def build_template(
    context: PatchContext,
    probes: Iterable[Probes],
    instrument: Callable[[int], Instrument] = Stamp,
    callee: int = 0,
    told: Progress = lambda done, of: None,
) -> PlanTemplate:
    """A template of the probes. ``context`` must be fresh and keep code, with the policy PORTABLE. ``instrument`` makes
    an instrument, given the number of its row; ``callee``, a place in the arena at which nothing else will lie, stands
    for the function that the instruments call. ``told`` is given the number of functions done, and how many there may
    be.

    Raises OutOfSpace when the arena is full.
    """
    return _Builder(context, instrument, callee).run(probes, told)


class _Builder:
    """Collects the findings as lists of tuples and then as arrays, column by column."""

    def __init__(self, context: PatchContext, instrument: Callable[[int], Instrument], callee: int) -> None:
        self._context = context
        self._instrument, self._callee = instrument, callee
        self._block = context.arena.mark()
        self._columns: dict[str, list[Array]] = defaultdict(list)
        self._code: list[bytes] = []
        self._old, self._new = bytearray(), bytearray()
        self._outcomes: dict[int, int] = {}

    def run(self, asked: Iterable[Probes], told: Progress) -> PlanTemplate:
        spans = len(self._context.analysis.image.spans)
        wanted: dict[int, tuple[Function, list[Want]]] = {}
        owners: dict[int, int] = {}
        rows: list[tuple[int, ...]] = []
        for number, (function, probes) in enumerate(asked):
            for part, point, kind in probes:
                want = Want(point.address, point.after, self._instrument(len(rows)), len(rows))
                wanted.setdefault(part.start, (part, []))[1].append(want)
                owners[part.start] = function.start
                block = part.block_at(point.address)
                rows.append((part.start, kind, block.index if block else 0, point.address, point.after))
            if number % _AT_ONCE == 0:
                told(number // 2, spans)
        order = sorted(wanted.values(), key=lambda item: -item[0].start)
        spare_tails(self._context, order)
        self._plan(order, lambda done: told((spans - len(order) + spans + done) // 2, spans))
        return self._made([function for function, _ in order], owners, rows)

    def _plan(self, order: list[tuple[Function, list[Want]]], told: Callable[[int], None]) -> None:
        """Plan the functions, from the highest address down as ``plan`` does itself."""
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            start = self._context.arena.mark()
            self._add(first, plan(self._context, some).functions, start)
            told(first + len(some))

    def _add(self, first: int, plans: tuple[FunctionPlan, ...], start: int) -> None:
        """Add the plans. ``start`` is the address of the first patch; patches lie one behind the other."""
        data = bytearray(self._context.arena.mark() - start)
        for function in plans:
            for patch in _inside(function):
                data[patch.address - start : patch.address - start + len(patch.data)] = patch.data
        self._fields(plans, start, data)
        self._code.append(bytes(data))
        numbered = list(enumerate(plans, first))
        self._keep(("patch_at", "patch_size", "patch_inside", "patch_leads", "patch_unit"), self._patches(numbered))
        self._keep(_SITES, self._sites(numbered))
        self._keep(("same_patch", "same_inside", "same_original", "same_before", "same_unit"), self._same(numbered))
        self._keep(
            ("displaced", "displaced_unit"), ((at - self._context.bias, u) for u, p in numbered for at in p.displaced)
        )
        for function in plans:
            self._outcomes.update((row, outcome_of(how)) for row, how in function.tactics.items())
            self._outcomes.update((row, outcome_of(why)) for row, why in function.refusals.items())

    def _keep(self, names: tuple[str, ...], rows: Iterable[tuple[int, ...]]) -> None:
        columns = np.array(list(rows), np.int64).reshape(-1, len(names))
        for index, name in enumerate(names):
            self._columns[name].append(columns[:, index])

    # Fields of patches.

    def _fields(self, plans: tuple[FunctionPlan, ...], start: int, data: bytearray) -> None:
        """Set the fields in ``data`` to their values with everything at 0, and note their places."""
        context, base = self._context, self._context.host.base
        codes = list(_codes(plans))
        numbers = [(at + o, end - o) for at, code in codes for o, end, _, _ in code.fixups]
        at, rest = np.array(numbers, np.int64).reshape(-1, 2).T
        view = as_words(data)
        leads = at + rest + view[at - start]
        self._columns["text"].append(self._relative(view, at, rest, leads, ~self._is_ours(leads), start, context.bias))
        runtime = self._is_ours(leads) & (leads < self._block)
        self._columns["runtime"].append(self._relative(view, at, rest, leads, runtime, start, base))
        called = leads == self._callee
        self._columns["callee"].append(self._relative(view, at, rest, leads, called, start, self._callee))
        words = np.array([at + o for at, code in codes for o in code.words], np.int64)
        _add_to_words(data, words - start, -context.bias)
        self._columns["words"].append(words - self._block)
        holes = np.array([at + o for at, code in codes for o in code.holes], np.int64)
        self._columns["holes"].append(holes - self._block)

    def _is_ours(self, address: Array) -> Array:
        """Whether each address is in the arena, or on the key page below it."""
        arena = self._context.arena
        ours: Array = (arena.base - PAGE <= address) & (address < arena.base + arena.size)
        return ours

    def _relative(
        self, view: Array, at: Array, rest: Array, leads: Array, which: Array, start: int, origin: int
    ) -> Array:
        """The places in the block of the fields ``which``, a mask. They are set to lead to ``leads - origin`` from
        there.

        Raises OverflowError for an image that is too large for that.
        """
        place = at[which] - self._block
        value = leads[which] - origin - place - rest[which]
        if len(value) and not -_FARTHEST <= int(value.min()) <= int(value.max()) < _FARTHEST:
            raise OverflowError("an image of more than 2 GiB")
        view[at[which] - start] = value
        return place

    # Rows of arrays.

    def _patches(self, plans: list[tuple[int, FunctionPlan]]) -> Iterator[tuple[int, ...]]:
        bias, block = self._context.bias, self._block
        for unit, function in plans:
            for splice in function.splices:
                for at in splice.trampolines:
                    yield at - bias, TRAMPOLINE, False, splice.patch - block, unit
            for patch in _inside(function):
                yield patch.address - block, len(patch.data), True, 0, unit

    def _sites(self, plans: list[tuple[int, FunctionPlan]]) -> Iterator[tuple[int, ...]]:
        for unit, function in plans:
            for splice in function.splices:
                sites, tactic, shared = splice.sites, outcome_of(splice.tactic), splice.shared
                for site in sites:
                    last = site is sites[-1]
                    leads = splice.patch - self._block if last and not shared else -1
                    self._old += site.old
                    self._new += site.new if leads < 0 else site.new[:-4] + bytes(4)
                    behind = shared[1] - shared[0] if last and shared else 0
                    yield site.address - self._context.bias, len(site.new), leads, tactic, behind, unit

    def _same(self, plans: list[tuple[int, FunctionPlan]]) -> Iterator[tuple[int, ...]]:
        bias, holds = self._context.bias, self._context.arena.holds
        for unit, function in plans:
            for patch, original, before in function.equivalences:
                inside = holds(patch)
                yield patch - (self._block if inside else bias), inside, original - bias, before, unit

    # The template.

    def _made(self, functions: list[Function], owners: dict[int, int], rows: list[tuple[int, ...]]) -> PlanTemplate:
        units = {function.start: unit for unit, function in enumerate(functions)}
        self._keep(("unit_start", "unit_owner"), ((f.start, units[owners[f.start]]) for f in functions))
        kept = ((units[part], *rest) for part, *rest in rows)
        self._keep(("row_unit", "row_kind", "row_block", "row_address", "row_after"), kept)
        self._keep(("row_outcome",), ((self._outcomes[row],) for row in range(len(rows))))
        names = "\0".join(function.name for function in functions).encode("utf-8", "surrogateescape")
        raw = {"names": names, "code": b"".join(self._code), "old": self._old, "new": self._new}
        arrays: dict[str, Any] = {name: np.frombuffer(bytes(data), np.uint8) for name, data in raw.items()}
        return PlanTemplate.of_columns({**arrays, **{n: np.concatenate(parts) for n, parts in self._columns.items()}})


def _inside(function: FunctionPlan) -> tuple[Patch, ...]:
    """The patches of a plan that are made of code; the jumps of puns are not."""
    return function.patches[len(function.patches) - len(function.codes) :]


def _codes(plans: tuple[FunctionPlan, ...]) -> Iterator[tuple[int, PatchCode]]:
    """Every patch's address, and the code that it was made of."""
    return itertools.chain.from_iterable(
        zip((patch.address for patch in _inside(function)), function.codes, strict=True) for function in plans
    )


def _add_to_words(data: bytearray, at: Array, number: int) -> None:
    """Add a number to the absolute addresses at the places ``at``; their halves are eight bytes apart."""
    view = as_words(data).view("<u4")
    value = (view[at].astype(np.int64) | view[at + 8].astype(np.int64) << 32) + number
    view[at] = (value & 0xFFFFFFFF).astype(np.uint32)
    view[at + 8] = (value >> 32).astype(np.uint32)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Resolves indirect jumps: finds the targets of a switch, a computed goto or a tail call.

The target is computed backwards as a symbolic value. If it has the form ``base + factor * table[index]``, or ``base +
factor * index``, the table is read: as far as the guarding comparison allows, or if there is none, as long as entries
lead to instructions of the function. An entry too many costs a block border; one too few would be wrong.
"""

from __future__ import annotations

from typing import Final

from gilk.analysis import blocks as blocking
from gilk.analysis import stack
from gilk.analysis.bounds import index_range
from gilk.analysis.definitions import DefinedPlaces, Reaching
from gilk.analysis.entries import TableEntries, TableForm, form_of
from gilk.analysis.evaluate import Evaluator
from gilk.analysis.jumps import JumpTargets, within
from gilk.analysis.model import Block, End
from gilk.analysis.parts import FunctionParts
from gilk.analysis.traverse import Traversal
from gilk.analysis.values import Load, Value
from gilk.image.model import Image

_ROUNDS: Final = 8  # a table may be found only after the code that another one leads to

Resolution = tuple[End, tuple[int, ...], tuple[int, ...]]  # the end, the targets inside the function, those outside
_LEAVES: Final[Resolution] = (End.TAIL_INDIRECT, (), ())


class JumpTables:
    """Resolves the indirect jumps of one image."""

    def __init__(self, image: Image, jumps: JumpTargets, parts: FunctionParts) -> None:
        self._jumps = jumps
        self._entries = TableEntries(image, jumps, parts)

    def resolve(self, traversal: Traversal) -> None:
        """Find the targets of a function's indirect jumps, and traverse the code there.

        If a jump remains unknown, addresses in the function that instructions load are traversed, too, since it may
        lead there.
        """
        places = DefinedPlaces()
        loaded = within(self._jumps.taken, traversal.start + 1, traversal.end)
        for _ in range(_ROUNDS):
            sites = {site for site, way in traversal.ways.items() if way.how is End.INDIRECT}
            if not sites or not self._round(traversal, sites, loaded, places):
                return

    def _round(self, traversal: Traversal, sites: set[int], loaded: list[int], places: DefinedPlaces) -> bool:
        """Resolve the jumps once; returns whether anything new was found."""
        function = _OpenFunction(self, traversal, loaded, places)
        known = [(block.terminator, function.resolution(block)) for block in function.blocks_ending(sites)]
        progress = False
        for site, resolution in known:
            progress |= traversal.resolve(site, *resolution)
        if not progress:
            reached = len(traversal.ways)
            traversal.add(address for address in loaded if address in traversal.main.index)
            progress = len(traversal.ways) > reached
        return progress

    def has_labels(self, traversal: Traversal, loaded: list[int]) -> bool:
        """Whether addresses inside the function are taken, so that any pointer may be one of them."""
        return bool(loaded or within(self._jumps.pointers, traversal.start + 1, traversal.end))

    def targets(self, traversal: Traversal, evaluator: Evaluator, block: Block, form: TableForm) -> list[int]:
        """The addresses to which the entries of a table lead; [] if they make no sense as a table."""
        bounds = index_range(evaluator, block, form.index)
        return self._entries.read(traversal, form, bounds)

    def form(self, value: Value) -> TableForm | None:
        return form_of(value, self._entries.is_code)

    def are_entries(self, addresses: tuple[int, ...]) -> bool:
        """Whether a function begins at each of the addresses: they are an array of functions, or empty."""
        return all(map(self._entries.is_entry, addresses))

    def is_code(self, address: int) -> bool:
        return self._entries.is_code(address)


class _OpenFunction:
    """A function whose blocks are not all known yet, in one round."""

    def __init__(self, tables: JumpTables, traversal: Traversal, loaded: list[int], places: DefinedPlaces) -> None:
        self._tables = tables
        self._traversal = traversal
        self._reaching = Reaching(traversal, blocking.build(traversal, loaded, frozenset()), places)
        self._evaluator = Evaluator(self._reaching)
        self._labels = tables.has_labels(traversal, loaded)
        self._depths: dict[int, stack.Depth] | None = None

    def blocks_ending(self, sites: set[int]) -> list[Block]:
        return [block for block in self._reaching.blocks.values() if block.terminator in sites]

    def resolution(self, block: Block) -> Resolution:
        """The resolution of the jump that ends ``block``: INDIRECT, with the targets found so far, while some are
        unknown.
        """
        values = self._evaluator.targets(block)
        found = [(value, self._targets(at, value)) for at, value in values]
        unknown = [value for value, targets in found if not targets]
        inside, outside = self._apart({target for _, targets in found for target in targets})
        if found and not inside and self._tables.are_entries(outside):
            leaves = all(self._leaves(block, value) for value in unknown)
            return _LEAVES if leaves else (End.INDIRECT, (), ())
        return (End.INDIRECT if unknown or not found else End.TABLE), inside, outside

    def _targets(self, block: Block, value: Value) -> list[int]:
        if not value.terms:
            return [value.const] if self._tables.is_code(value.const) else []
        form = self._tables.form(value)
        return [] if form is None else self._tables.targets(self._traversal, self._evaluator, block, form)

    def _apart(self, targets: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The targets in the function, and those outside of it, each sorted."""
        inside = tuple(sorted(t for t in targets if self._traversal.start <= t < self._traversal.end))
        return inside, tuple(sorted(targets.difference(inside)))

    def _leaves(self, block: Block, value: Value) -> bool:
        """Whether the jump is a tail call: by a pointer that is no label of this function, with the stack as it was at
        the entry.
        """
        atom = value.atom
        if isinstance(atom, Load) and not atom.address.terms:
            return True  # a variable, or a slot of the global offset table
        if self._tears_down(block):
            return True
        if self._labels:
            return False
        whole = isinstance(atom, Load) and atom.size == 8  # an address, not an offset from a label
        if not whole and self._tables.form(value) is not None:
            return False
        return self._depths_of(block)[1].may_leave

    def _tears_down(self, block: Block) -> bool:
        """Whether the block itself gives up the function's frame."""
        start, end = self._depths_of(block)
        return end.may_leave and not start.may_leave

    def _depths_of(self, block: Block) -> tuple[stack.Depth, stack.Depth]:
        """The depth at the block's start, and that before the jump that ends it."""
        if self._depths is None:
            self._depths = stack.depths(self._reaching, self._traversal.start)
        start = depth = self._depths.get(block.start, stack.UNKNOWN)
        for instruction in self._reaching.body(block)[:-1]:
            depth = stack.step(depth, instruction)
        return start, depth

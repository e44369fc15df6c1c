# SPDX-License-Identifier: LGPL-2.1-or-later
"""The analysis of one image: functions are analysed on demand, each once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from gilk.analysis import blocks as blocking
from gilk.analysis.jumps import ENTERED, LEAVES_BY_INDIRECT_JUMP, JumpTargets, within
from gilk.analysis.liveness import Liveness
from gilk.analysis.model import Block, End, Function, LiveInstruction
from gilk.analysis.noreturn import Returns
from gilk.analysis.parts import Extents, FunctionParts, is_cold
from gilk.analysis.summaries import Known, Summaries
from gilk.analysis.tables import JumpTables
from gilk.analysis.traverse import Surroundings, Traversal
from gilk.image.model import FunctionSpan, Image, SymbolKind


class Analysis:
    """The analysis of ``image``. It does no input or output: everything follows from the values of the image.

    ``jumps`` may come from a cache; otherwise the image is scanned when they are first needed. ``known``, the summaries
    of functions that were found before, may come from a cache, too.
    """

    def __init__(
        self, image: Image, jumps: JumpTargets | None = None, known: Mapping[int, Known] | None = None
    ) -> None:
        self.image = image
        self._given = jumps
        self._known = known
        self._functions: dict[int, Function] = {}
        self._table_exits: dict[int, frozenset[int]] = {}
        self._entries = {span.start for span in image.spans} | image.plt.keys()

    @cached_property
    def jumps(self) -> JumpTargets:
        return self._given or JumpTargets.scan(self.image)

    def function(self, span: FunctionSpan) -> Function:
        """The function at ``span`` with its blocks."""
        known = self._functions.get(span.start)
        if known is None:
            known = self._functions[span.start] = self._analyse(span)
        return known

    def extents(self, function: Function) -> tuple[Function, ...]:
        """``function`` and its parts elsewhere, such as its .cold part, each as a Function."""
        spans = (self.image.span_at(start) for start, _ in function.parts)
        found = (self.function(span) for span in spans if span is not None)
        return (function, *(part for part in found if part.whole == function.start))

    def functions(self) -> Iterator[Function]:
        """All functions of the image, in address order."""
        return (self.function(span) for span in self.image.spans)

    def steps(self, function: Function, block: Block) -> tuple[LiveInstruction, ...]:
        """The instructions of ``block``, each with the registers and flags that are live just before it."""
        return self.liveness(function).steps(block)

    def live_after(self, function: Function, block: Block) -> int:
        """The live registers and flags, a bit each, where control is about to leave ``block``: before its terminator,
        or behind its last instruction if it falls through.
        """
        return self.liveness(function).before_end(block)

    def liveness(self, function: Function) -> Liveness:
        return self._summaries.of(function)

    @property
    def known(self) -> Mapping[int, Known]:
        """The summaries found so far, by the starts of the functions; another analysis of the same image can be given
        them.
        """
        return self._summaries.known

    @property
    def has_learnt(self) -> bool:
        """Whether there are more summaries than the analysis was given."""
        return len(self.known) > len(self._known or ())

    @cached_property
    def returns(self) -> Returns:
        return Returns(self.image, self.jumps)

    @cached_property
    def parts(self) -> FunctionParts:
        return FunctionParts(self.image, self.jumps)

    @cached_property
    def _summaries(self) -> Summaries:
        return Summaries(self.image, self.function, self._known)

    @cached_property
    def _tables(self) -> JumpTables:
        return JumpTables(self.image, self.jumps, self.parts)

    @cached_property
    def _symbols(self) -> list[int]:
        kinds = (SymbolKind.FUNC, SymbolKind.IFUNC)
        return sorted({symbol.address for symbol in self.image.symbols if symbol.kind in kinds})

    @cached_property
    def _landing_pads(self) -> list[int]:
        return sorted({pad for frame in self.image.frames for pad in frame.landing_pads})

    def _analyse(self, span: FunctionSpan) -> Function:
        traversal, parts = self._traverse(span), self.parts.of(span)
        more = [address for address in self._tables_into(span) if span.start <= address < traversal.end]
        if more:
            traversal.add(more)
            self._tables.resolve(traversal)
        pads = frozenset(_between(self._landing_pads, span.start, traversal.end))
        taken = within(self.jumps.taken, span.start, traversal.end)
        blocks = blocking.build(traversal, [*taken, *self._unreached(traversal)], pads)
        return self._function(span, traversal, blocks, parts)

    def _traverse(self, span: FunctionSpan) -> Traversal:
        """The traversal of ``span`` from all its entries that the whole image tells about."""
        code = self.image.read(span.start, span.end - span.start)
        end = span.start + len(code)
        heads = {start for start, _ in self.parts.of(span)}
        around = Surroundings(
            self.returns.after,
            lambda address: address in self._entries and address not in heads,
            self.image.detours,
            self.image.returns,
            self.image.dispatchers,
        )
        traversal = Traversal(code, span.start, around)
        if code:
            pads = _between(self._landing_pads, span.start, end)
            traversal.add([span.start, *pads, *self.jumps.into(span.start, end)])
            traversal.add(_between(self._symbols, span.start, end))
            pointed = within(self.jumps.pointers, span.start, end)
            traversal.add(address for address in pointed if address in traversal.main.index)
            self._tables.resolve(traversal)
        return traversal

    def _tables_into(self, span: FunctionSpan) -> Iterable[int]:
        """The addresses in ``span``, and perhaps others, to which jump tables of other spans may lead; () if ``span``
        cannot be a part of their functions.
        """
        parts = self.parts.of(span)
        if parts:
            return {address for start, _ in parts for address in self._tables_of(start)}
        return self._all_tables if is_cold(span) or self._may_be_part(span) else ()

    def _may_be_part(self, span: FunctionSpan) -> bool:
        index = bisect.bisect_left(self.image.spans, span.start, key=_start)
        return span.source == "eh_frame" and not self.jumps.traits[index] & ENTERED

    @cached_property
    def _all_tables(self) -> frozenset[int]:
        """All addresses outside of their own spans to which jump tables of the image lead."""
        jumping = np.flatnonzero(self.jumps.traits & LEAVES_BY_INDIRECT_JUMP).tolist()
        return frozenset().union(*(self._tables_of(self.image.spans[i].start) for i in jumping))

    def _tables_of(self, start: int) -> frozenset[int]:
        """The addresses outside of the function at ``start`` to which its jump tables lead."""
        known = self._table_exits.get(start)
        if known is None:
            span = self.image.span_at(start)
            known = frozenset(self._traverse(span).foreign) if span is not None else frozenset()
            self._table_exits[start] = known
        return known

    def _unreached(self, traversal: Traversal) -> Iterator[int]:
        """The targets of branches in bytes that the traversal does not reach: those bytes may be code all the same."""
        main = traversal.main
        for address in main.controls[:-1]:
            if not main.reached(address):
                yield main.at(address).near_branch_target

    def _function(
        self, span: FunctionSpan, traversal: Traversal, blocks: tuple[Block, ...], parts: Extents
    ) -> Function:
        reached = {block.start for block in blocks}
        wanted = {*traversal.inner, *traversal.leaders, *self._unreached(traversal)}
        return Function(
            name=span.name,
            start=span.start,
            end=traversal.end,
            aliases=span.aliases,
            blocks=blocks,
            calls=tuple(sorted(traversal.calls.items())),
            indirect=tuple(block.terminator for block in blocks if block.how is End.INDIRECT),
            noreturn=not self.returns.at(span.start),
            inner=frozenset(a for a in wanted if span.start < a < traversal.end and a not in reached),
            code=traversal.code,
            parts=parts,
            whole=self.parts.whole(span),
        )


def _start(span: FunctionSpan) -> int:
    return span.start


def _between(addresses: list[int], start: int, end: int) -> list[int]:
    return addresses[bisect.bisect_left(addresses, start) : bisect.bisect_left(addresses, end)]

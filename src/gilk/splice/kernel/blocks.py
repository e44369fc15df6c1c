# SPDX-License-Identifier: LGPL-2.1-or-later
"""All basic blocks of a kernel as arrays of rows; a row is the number of an instruction in the kernel's sweep.

They are the same blocks that analysis finds function by function; tests/kernel compares them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.kernel import KernelAnalysis
from gilk.image.kernel.build import KernelImage
from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.opcodes import OpcodeFlow
from gilk.image.kernel.sweep import distinct
from gilk.values import dataclass

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: The flows of instructions after which control never reaches the next byte.
_CLOSED: Final = (OpcodeFlow.JUMP, OpcodeFlow.JUMP_INDIRECT, OpcodeFlow.RETURN, OpcodeFlow.STOP)


@dataclass(frozen=True)
class Instructions:
    """The facts about each instruction in a function that are needed to find blocks. Arrays are indexed by the sweep's
    rows.
    """

    kernel: KernelImage
    analysis: KernelAnalysis

    @cached_property
    def owner(self) -> Rows:
        """The number of each instruction's function; -1 for an instruction in none."""
        starts, spans = self.kernel.sweep.starts, self.analysis.spans
        edges = np.stack((np.searchsorted(starts, spans.starts), np.searchsorted(starts, spans.ends)), axis=1)
        numbers = np.stack((np.arange(len(edges)), np.full(len(edges), -1)), axis=1)
        counts = np.diff(edges.reshape(-1), append=len(starts))
        before = np.full(int(edges[0, 0]) if len(edges) else len(starts), -1)
        return np.concatenate((before, np.repeat(numbers.reshape(-1), counts)))

    @cached_property
    def detoured(self) -> Flags:
        """Whether each instruction may lead elsewhere than its bytes say, and otherwise goes on to the next one."""
        return self._marked(np.array(list(self.kernel.image.detours), np.uint64))

    @cached_property
    def dropped(self) -> Flags:
        """Whether each instruction is a call that does not return."""
        sweep, spans = self.kernel.sweep, self.analysis.spans
        calls = sweep.direct[sweep.flows[sweep.direct] == OpcodeFlow.CALL]
        near = spans.near(sweep.targets[calls])
        never = (spans.starts[near] == sweep.targets[calls]) & ~self.analysis.returning[near]
        found = np.zeros(len(sweep.starts), np.bool_)
        found[calls[never]] = True
        return found & ~self.detoured

    @cached_property
    def closed(self) -> Flags:
        """Whether each instruction never goes on to the next byte. Calls that should not return are not among them."""
        return np.isin(self.kernel.sweep.flows, _CLOSED) & ~self.detoured

    @cached_property
    def ending(self) -> Flags:
        """Whether each instruction is the last of its block."""
        found: Flags = self.closed | self.detoured | self.dropped | (self.kernel.sweep.flows == OpcodeFlow.BRANCH)
        return found

    @cached_property
    def calls(self) -> Flags:
        flows = self.kernel.sweep.flows
        found: Flags = (flows == OpcodeFlow.CALL) | (flows == OpcodeFlow.CALL_INDIRECT)
        return found

    @cached_property
    def entered(self) -> Addresses:
        """Every address in code that anything leads to other than by falling through; sorted."""
        sweep, jumps = self.kernel.sweep, self.analysis.jumps
        direct = sweep.targets[sweep.direct]
        detours = [to for others in self.kernel.image.detours.values() for to in others]
        behind = sweep.ends[self.detoured | (sweep.flows == OpcodeFlow.BRANCH)]
        others = (jumps.taken.view(np.uint64), jumps.pointers.view(np.uint64), np.array(detours, np.uint64))
        return distinct(np.concatenate((self.analysis.spans.starts, direct, behind, *others)))

    @cached_property
    def roots(self) -> Addresses:
        """The addresses at which functions are entered from elsewhere. An address that is only taken (_THIS_IP_) is not
        one.
        """
        jumps = self.analysis.jumps
        ways = (jumps.targets.view(np.uint64), jumps.pointers.view(np.uint64))
        return distinct(np.concatenate((self.analysis.spans.starts, *ways)))

    def _marked(self, addresses: Addresses) -> Flags:
        found = np.zeros(len(self.kernel.sweep.starts), np.bool_)
        rows = self.kernel.sweep.row(addresses)
        found[rows[rows >= 0]] = True
        return found


@dataclass(frozen=True)
class Blocks:
    """All blocks, in address order: for each its first and its last row, and the number of its function; ``inner`` are
    the addresses that something leads to where no block begins, sorted.
    """

    first: Rows
    last: Rows
    owner: Rows
    inner: Addresses

    @classmethod
    def of(cls, code: Instructions) -> Blocks:
        sweep = code.kernel.sweep
        rows = sweep.row(code.entered)
        first = rows[rows >= 0]
        first = first[code.owner[first] >= 0]
        owner = code.owner[first]
        ends = np.flatnonzero(code.ending)
        at = np.searchsorted(ends, first)
        natural = np.append(ends, len(sweep.starts) - 1)[at]
        following = np.append(first[1:], len(sweep.starts)) - 1
        border = np.searchsorted(sweep.starts, code.analysis.spans.ends[owner]) - 1
        last = np.minimum(np.minimum(natural, following), border)
        reached = _reached(code, first, last, owner)
        inner = np.setdiff1d(code.entered, sweep.starts[first[reached]], assume_unique=True)
        inner = inner[code.analysis.spans.owner(inner) >= 0]
        return cls(first[reached], last[reached], owner[reached], inner)

    def __len__(self) -> int:
        return len(self.first)


def _reached(code: Instructions, first: Rows, last: Rows, owner: Rows) -> Flags:
    """Whether each block can be reached from a root; a breadth-first search."""
    sweep = code.kernel.sweep
    sources, targets = _edges(code, first, last, owner)
    order = np.argsort(sources, kind="stable")
    sources, targets = sources[order], targets[order]
    begins = np.searchsorted(sources, np.arange(len(first) + 1))
    reached = np.isin(first, sweep.row(code.roots))
    frontier = np.flatnonzero(reached)
    while len(frontier):
        counts = begins[frontier + 1] - begins[frontier]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        found = targets[np.repeat(begins[frontier], counts) + within]
        found = np.sort(found[~reached[found]])
        frontier = found[np.concatenate(([True], found[1:] != found[:-1]))] if len(found) else found
        reached[frontier] = True
    return reached


def _edges(code: Instructions, first: Rows, last: Rows, owner: Rows) -> tuple[Rows, Rows]:
    """The edges between blocks of the same function, as two arrays of block numbers: from and to."""
    sweep, blocks = code.kernel.sweep, np.arange(len(first))
    falls = blocks[:-1][~(code.closed | code.dropped)[last[:-1]] & (first[1:] == last[:-1] + 1)]
    jumps = blocks[np.isin(sweep.flows[last], (OpcodeFlow.BRANCH, OpcodeFlow.JUMP))]
    pairs = [(site, to) for site, others in code.kernel.image.detours.items() for to in others]
    more = np.array(pairs, np.uint64).reshape(-1, 2)
    sites = np.searchsorted(last, sweep.row(more[:, 0]))
    sites[sites == len(last)] = 0
    sources = np.concatenate((falls, jumps, sites))
    ends = np.concatenate((sweep.ends[last[falls]], sweep.targets[last[jumps]], more[:, 1]))
    rows = sweep.row(ends)
    targets = np.minimum(np.searchsorted(first, rows), len(first) - 1)
    good = (first[targets] == rows) & (owner[targets] == owner[sources])
    good[len(falls) + len(jumps) :] &= last[sites] == sweep.row(more[:, 0])
    return sources[good], targets[good]

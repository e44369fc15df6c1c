# SPDX-License-Identifier: LGPL-2.1-or-later
"""The branches of a kernel, found by arithmetic on arrays of its instructions; JumpTargets.scan finds those of a
program one by one.

Addresses of a kernel are in the upper half, so the arrays are unsigned.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from iced_x86 import Code
from numpy.typing import NDArray

from gilk.analysis.analysis import Analysis
from gilk.analysis.jumps import LEAVES_BY_INDIRECT_JUMP, LEAVES_BY_RETURN, JumpTargets
from gilk.analysis.noreturn import LEAVES, Returns
from gilk.image.kernel.build import KernelImage
from gilk.image.kernel.kallsyms import Addresses
from gilk.image.kernel.opcodes import OpcodeFlow
from gilk.image.kernel.snapshot import TextRegion
from gilk.image.kernel.sweep import Sweep
from gilk.values import dataclass

_LEA_LENGTH: Final = 7  # a REX prefix, the opcode, ModRM, and four bytes from the next instruction
_SIGNED_IMMEDIATES: Final = (
    Code.MOV_RM64_IMM32, Code.PUSHQ_IMM32, Code.CMP_RM64_IMM32, Code.CMP_RAX_IMM32, Code.ADD_RM64_IMM32,
    Code.ADD_RAX_IMM32,
)  # fmt: skip


class KernelAnalysis(Analysis):
    """The analysis of a whole kernel; functions are analysed on demand."""

    def __init__(self, kernel: KernelImage) -> None:
        self._kernel = kernel
        self.spans = FunctionExtents.of(kernel)
        super().__init__(kernel.image, jump_targets(kernel, self.spans))

    @cached_property
    def returns(self) -> Returns:
        return Returns(self.image, self.jumps, dict(enumerate(self.returning.tolist())))

    @cached_property
    def returning(self) -> NDArray[np.bool_]:
        """Whether a call of each span may return: the span has a return, runs on, or jumps to a span that may
        return.
        """
        extents, sweep, jumps = self.spans, self._kernel.sweep, self.jumps
        last = sweep.flows[np.searchsorted(sweep.starts, extents.ends) - 1]
        returning = (jumps.traits & LEAVES != 0) | (last == OpcodeFlow.NEXT) | (last == OpcodeFlow.BRANCH)
        ours = extents.owner(jumps.sources.view(np.uint64))
        theirs = extents.owner(jumps.targets.view(np.uint64))
        returning[ours[(ours >= 0) & (theirs < 0)]] = True
        known = (ours >= 0) & (theirs >= 0)
        ours, theirs = ours[known], theirs[known]
        before = -1
        while before != (before := int(np.count_nonzero(returning))):
            returning[ours[returning[theirs]]] = True
        answer: NDArray[np.bool_] = returning
        return answer


def jump_targets(kernel: KernelImage, extents: FunctionExtents) -> JumpTargets:
    sources, targets = _crossing(kernel, extents)
    order = np.argsort(targets, kind="stable")
    return JumpTargets(
        sources=_any(sources[order]),
        targets=_any(targets[order]),
        taken=_any(_taken(kernel, extents)),
        pointers=_any(_pointers(kernel, extents)),
        tables=_any(np.zeros(0, np.uint64)),
        traits=_traits(kernel, extents),
    )


@dataclass(frozen=True)
class FunctionExtents:
    """The starts and ends of all functions, as sorted arrays."""

    starts: Addresses
    ends: Addresses

    @classmethod
    def of(cls, kernel: KernelImage) -> FunctionExtents:
        spans = kernel.image.spans
        starts = np.array([span.start for span in spans], np.uint64)
        return cls(starts, np.array([span.end for span in spans], np.uint64))

    def owner(self, addresses: Addresses) -> NDArray[np.int64]:
        """The number of the function that each address is in; -1 for an address in none."""
        if not len(self.starts):
            return np.full(len(addresses), -1)
        rows = np.searchsorted(self.starts, addresses, "right") - 1
        rows[(rows >= 0) & (addresses >= self.ends[rows])] = -1
        return rows

    def near(self, addresses: Addresses) -> NDArray[np.int64]:
        """The number of the first function that starts at or behind each address; the last function's if
        there is none.
        """
        return np.minimum(np.searchsorted(self.starts, addresses), len(self.starts) - 1)

    def inner(self, addresses: Addresses) -> NDArray[np.bool_]:
        """A mask of ``addresses``: those in a function, but not at its start."""
        rows = self.owner(addresses)
        inner: NDArray[np.bool_] = (rows >= 0) & (self.starts[rows] != addresses)
        return inner


def _any(addresses: Addresses) -> Any:
    """``addresses`` with the type Any: JumpTargets declares signed addresses, as those of programs are."""
    return addresses


def _thunks(kernel: KernelImage) -> Addresses:
    return np.array(sorted(kernel.image.returns | kernel.image.dispatchers), np.uint64)


def _crossing(kernel: KernelImage, extents: FunctionExtents) -> tuple[Addresses, Addresses]:
    """The sources and targets of direct branches out of a function, except calls of functions; detours are included,
    branches to thunks are not.
    """
    sweep = kernel.sweep
    rows = sweep.direct
    targets = sweep.targets[rows]
    calls = (sweep.flows[rows] == OpcodeFlow.CALL) & (extents.starts[extents.near(targets)] == targets)
    pairs = [(site, other) for site, others in kernel.image.detours.items() for other in others]
    more = np.array(pairs, np.uint64).reshape(-1, 2)
    sources = np.concatenate((sweep.starts[rows][~calls], more[:, 0]))
    targets = np.concatenate((targets[~calls], more[:, 1]))
    theirs = extents.owner(targets)
    foreign = (extents.owner(sources) != theirs) | (theirs < 0)
    sources, targets = sources[foreign], targets[foreign]
    plain = ~np.isin(targets, _thunks(kernel))
    return sources[plain], targets[plain]


def _taken(kernel: KernelImage, extents: FunctionExtents) -> Addresses:
    """The addresses inside functions that instructions load: relative to themselves, or as an immediate."""
    found = [np.zeros(0, np.uint64)]
    for part in kernel.snapshot.parts:
        found += _loaded(part.text, kernel.sweep)
    loaded = np.unique(np.concatenate(found))
    return loaded[extents.inner(loaded)]


def _loaded(text: TextRegion, sweep: Sweep) -> list[Addresses]:
    low, high = np.searchsorted(sweep.starts, np.array([text.address, text.end], np.uint64)).tolist()
    codes, lengths = sweep.codes[low:high], sweep.lengths[low:high]
    ends = (sweep.ends[low:high] - np.uint64(text.address)).astype(np.int64)
    content = np.frombuffer(text.data, np.uint8)
    leas = ends[(codes == Code.LEA_R64_M) & (lengths == _LEA_LENGTH)]
    leas = leas[content[leas - 5] & 0xC7 == 5]  # ModRM: relative to the next instruction
    relative = np.uint64(text.address) + (leas + _words(content, leas)).view(np.uint64)
    immediates = ends[np.isin(codes, _SIGNED_IMMEDIATES)]
    return [relative, _words(content, immediates).view(np.uint64)]


def _words(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The signed four-byte words of ``content`` that end at the offsets ``ends``."""
    rows = np.ascontiguousarray(content[(ends - 4)[:, None] + np.arange(4)])
    return rows.view("<i4").reshape(-1).astype(np.int64)


def _pointers(kernel: KernelImage, extents: FunctionExtents) -> Addresses:
    """The addresses inside functions that constants hold: those of labels, for computed jumps."""
    found = [np.zeros(0, np.uint64)]
    for part in kernel.snapshot.parts:
        skip = -part.constants.address % 8
        count = max(len(part.constants.data) - skip, 0) // 8
        words = np.frombuffer(part.constants.data, "<u8", count, skip) if count else found[0]
        found.append(words[(words > extents.starts[0]) & (words < extents.ends[-1])])
    words = np.unique(np.concatenate(found))
    words = words[extents.inner(words)]
    return words[kernel.sweep.row(words) >= 0]


def _traits(kernel: KernelImage, extents: FunctionExtents) -> NDArray[np.uint8]:
    """How each function can be left: LEAVES_BY_* bits."""
    sweep, image = kernel.sweep, kernel.image
    traits = np.zeros(len(extents.starts), np.uint8)
    jumps = sweep.direct[sweep.flows[sweep.direct] != OpcodeFlow.CALL]
    ways = (
        (OpcodeFlow.RETURN, image.returns, LEAVES_BY_RETURN),
        (OpcodeFlow.JUMP_INDIRECT, image.dispatchers, LEAVES_BY_INDIRECT_JUMP),
    )
    for flow, thunks, bit in ways:
        to_thunks = jumps[np.isin(sweep.targets[jumps], np.array(sorted(thunks), np.uint64))]
        rows = extents.owner(sweep.starts[np.concatenate((np.flatnonzero(sweep.flows == flow), to_thunks))])
        traits[rows[rows >= 0]] |= bit
    return traits

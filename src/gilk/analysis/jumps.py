# SPDX-License-Identifier: LGPL-2.1-or-later
"""The branches of a whole image: those that an analysis of one function cannot find in its own bytes.

A block of one function may be entered from another: a ``.cold`` part jumps back into the middle of its parent,
hand-written assembly shares tails. One linear pass over all executable bytes, function by function and then the gaps
between them, finds every direct branch that crosses a function's border, every code address that instructions or data
take, and every place where a function can be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from iced_x86 import Code, Instruction
from numpy.typing import NDArray

from gilk.arch import decode as x86
from gilk.image.model import FunctionSpan, Image
from gilk.values import dataclass

Addresses = NDArray[np.int64]

_HIGHEST: Final = 1 << 63  # a branch to here or beyond is in bytes that are no code
LEAVES_BY_RETURN: Final = 1
LEAVES_BY_INDIRECT_JUMP: Final = 2
ENTERED: Final = 4  # something calls the span or takes its address, so it is not just a part of another function

_LOADS_ADDRESS: Final = frozenset({Code.LEA_R64_M})
_LOADS_WORD: Final = frozenset({Code.JMP_RM64, Code.MOV_R64_RM64})
_LOADS_IMMEDIATE: Final = frozenset(
    {Code.MOV_R32_IMM32, Code.MOV_RM32_IMM32, Code.MOV_RM64_IMM32, Code.MOV_R64_IMM64, Code.PUSHQ_IMM32,
     Code.CMP_RM64_IMM32, Code.CMP_RAX_IMM32, Code.ADD_RM64_IMM32, Code.ADD_RAX_IMM32}
)  # fmt: skip


@dataclass(frozen=True)
class JumpTargets:
    """Sorted arrays of addresses; see `scan` for how they are found."""

    sources: Addresses  # addresses of direct jumps, branches and calls that cross a border,
    targets: Addresses  # and their targets; pairs sorted by target. Calls to a function's entry are left out
    taken: Addresses  # code addresses inside functions that an instruction loads
    pointers: Addresses  # code addresses inside functions that data holds
    tables: Addresses  # other addresses that instructions load; a jump table may begin there
    traits: NDArray[np.uint8]  # per span of the image, in order: LEAVES_BY_* that its bytes contain, ENTERED

    @classmethod
    def scan(cls, image: Image) -> JumpTargets:
        """Decode all executable bytes of ``image`` once."""
        found = _Found(image)
        for start, end, index in _regions(image):
            found.region(image.read(start, end - start), start, index)
        return found.result()

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """The findings as arrays for a cache; `from_arrays` reads them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> JumpTargets:
        """The jump targets that `to_arrays` gave. Raises KeyError when an array is missing."""
        return cls(**cast("dict[str, Any]", {field.name: arrays[field.name] for field in fields(cls)}))

    def into(self, start: int, end: int) -> list[int]:
        """The targets in [start, end) of branches from elsewhere, each once, sorted."""
        low, high = np.searchsorted(self.targets, (start, end))
        return sorted(set(self.targets[low:high].tolist()))

    def out_of(self, start: int, end: int) -> list[tuple[int, int]]:
        """The branches from [start, end) to elsewhere, as (source, target)."""
        by_source, order = self._by_source
        low, high = np.searchsorted(by_source, (start, end))
        rows = order[low:high]
        return list(zip(self.sources[rows].tolist(), self.targets[rows].tolist(), strict=True))

    @cached_property
    def _by_source(self) -> tuple[Addresses, Addresses]:
        order = np.argsort(self.sources, kind="stable")
        return self.sources[order], order

    def next_table(self, address: int) -> int:
        """The first loaded data address after ``address``; 0 if there is none."""
        i = int(np.searchsorted(self.tables, address, side="right"))
        return int(self.tables[i]) if i < len(self.tables) else 0


def within(addresses: Addresses, start: int, end: int) -> list[int]:
    """The members of a sorted array in [start, end)."""
    low, high = np.searchsorted(addresses, (start, end))
    return cast("list[int]", addresses[low:high].tolist())


def executable_ranges(image: Image) -> list[tuple[int, int]]:
    """The ranges [start, end) of all executable sections, or of the executable segments if the file has no sections."""
    regions = [(s.address, s.address + s.size) for s in image.sections if s.executable and s.size]
    if not regions:
        regions = [(s.address, s.address + len(s.data)) for s in image.segments if s.executable]
    return sorted(regions)


def _regions(image: Image) -> Iterator[tuple[int, int, int]]:
    """All executable bytes as (start, end, index of the span): the spans, and the gaps between them with index -1."""
    for index, span in enumerate(image.spans):
        yield span.start, span.end, index
    for low, high in executable_ranges(image):
        yield from ((start, end, -1) for start, end in _gaps(image.spans, low, high))


def _gaps(spans: tuple[FunctionSpan, ...], low: int, high: int) -> Iterator[tuple[int, int]]:
    position = low
    for span in spans:
        if span.end <= low or span.start >= high:
            continue
        if span.start > position:
            yield position, span.start
        position = max(position, span.end)
    if position < high:
        yield position, high


def _indexes_table(instruction: Instruction) -> bool:
    """Whether the instruction accesses an array of words at a fixed address."""
    return (
        instruction.code in _LOADS_WORD
        and int(instruction.memory_base) == x86.NO_REGISTER
        and int(instruction.memory_index) != x86.NO_REGISTER
    )


class _Found:
    """Collects the findings while the regions of one image are scanned."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.pairs: list[tuple[int, int]] = []
        self.loaded: set[int] = set()
        self.called: set[int] = set()
        self.exits = np.zeros(len(image.spans), np.uint8)
        self.starts = np.array([span.start for span in image.spans], np.int64)
        self.ends = np.array([span.end for span in image.spans], np.int64)
        self.entries = {span.start for span in image.spans}

    def region(self, code: bytes, start: int, index: int) -> None:
        instructions = x86.decode(code, start)
        end = start + len(code)
        exits = 0
        for control in [i for i in instructions if i.flow_control]:
            exits |= self._control(control, start, end)
        if index >= 0:
            self.exits[index] = exits
        self.loaded.update(i.ip_rel_memory_address for i in instructions if i.code in _LOADS_ADDRESS)
        if not self.image.position_independent:
            immediates = [i for i in instructions if i.code in _LOADS_IMMEDIATE]
            self.loaded.update(i.immediate(i.op_count - 1) for i in immediates)
            self.loaded.update(i.memory_displacement for i in instructions if _indexes_table(i))

    def _control(self, control: Instruction, start: int, end: int) -> int:
        flow = control.flow_control
        if flow == x86.RETURN:
            return LEAVES_BY_RETURN
        if flow == x86.JUMP_INDIRECT:
            return LEAVES_BY_INDIRECT_JUMP
        target = control.near_branch_target
        if flow == x86.CALL and target in self.entries:
            self.called.add(target)
        elif 0 < target < _HIGHEST and not start <= target < end:
            self.pairs.append((control.ip, target))
        return 0

    def result(self) -> JumpTargets:
        pairs = np.array(sorted((target, source) for source, target in self.pairs), np.int64).reshape(-1, 2)
        loaded = np.array(sorted(self.loaded), np.uint64).astype(np.int64)
        code = self._is_code(loaded)
        return JumpTargets(
            sources=pairs[:, 1].copy(),
            targets=pairs[:, 0].copy(),
            taken=loaded[self._inside(loaded)],
            pointers=self.words[self._inside(self.words)],
            tables=loaded[~code | self._inside(loaded)],
            traits=self._traits(loaded),
        )

    def _inside(self, addresses: Addresses) -> NDArray[np.bool_]:
        """A mask of ``addresses``: those strictly inside a span."""
        if not len(self.starts):
            return np.zeros(len(addresses), np.bool_)
        rows = np.searchsorted(self.starts, addresses, side="right") - 1
        return (rows >= 0) & (addresses > self.starts[rows]) & (addresses < self.ends[rows])

    def _is_code(self, addresses: Addresses) -> NDArray[np.bool_]:
        result = np.zeros(len(addresses), np.bool_)
        for low, high in executable_ranges(self.image):
            result |= (addresses >= low) & (addresses < high)
        return result

    def _traits(self, loaded: Addresses) -> NDArray[np.uint8]:
        entered = self.called.union(loaded.tolist(), self.words.tolist())
        marks = [ENTERED * (start in entered) for start in self.starts.tolist()]
        return self.exits | np.array(marks, np.uint8)

    @cached_property
    def words(self) -> Addresses:
        """The words of data that may be addresses: relocated words; in a program at a fixed address all
        aligned words.
        """
        image = self.image
        values = [np.fromiter(image.relative.values(), np.uint64, len(image.relative)).astype(np.int64)]
        if not image.position_independent:
            for segment in image.segments:
                skip = -segment.address % 8
                words = (len(segment.data) - skip) // 8
                if not segment.executable and words > 0:
                    values.append(np.frombuffer(segment.data, "<i8", words, skip))
        return np.unique(np.concatenate(values))

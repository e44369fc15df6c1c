# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes an Image of what was read of a kernel: one for the kernel and all its modules, at their live addresses."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from gilk.image.kernel import flow, functions, reserved
from gilk.image.kernel.kallsyms import Addresses, KernelSymbols
from gilk.image.kernel.snapshot import KernelPart, KernelSnapshot, TextRegion
from gilk.image.kernel.sweep import Sweep
from gilk.image.model import ElfSymbol, Image, LoadSegment, Section, SymbolKind
from gilk.values import dataclass

NAME: Final = "kernel"
_TEXT, _DATA = frozenset("tTwW"), frozenset("dDbBrRvVgG")


@dataclass(frozen=True)
class KernelImage:
    """A kernel's image, and its instructions as arrays. ``fentries`` are the addresses of the instructions at
    functions' entries that belong to ftrace, sorted.
    """

    snapshot: KernelSnapshot
    image: Image
    sweep: Sweep
    fentries: Addresses

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The name of the module that each span belongs to, or "kernel"."""
        starts = np.array([span.start for span in self.image.spans], np.uint64)
        return tuple(owner or NAME for owner in reserved.owners(self.snapshot.parts, starts))


def kernel(snapshot: KernelSnapshot, named: bool = True) -> KernelImage:
    """The image of a kernel. ``named`` False leaves out its symbols, which are needed for names of data and take a
    while.
    """
    parts = sorted(snapshot.parts, key=lambda part: part.text.address)
    texts = [part.text for part in parts]
    heads = functions.heads(snapshot.symbols, texts)
    borders = _borders(snapshot.symbols, texts)
    starts = np.array([head.address for head in heads], np.uint64)
    sweep = Sweep.of(texts, np.union1d(starts, borders))
    fentries = flow.fentries(texts, heads, sweep, snapshot.symbols)
    conventional = _entries(starts, fentries)
    spans = tuple(functions.spans(heads, sweep, borders, conventional))
    image = Image(
        path=Path(NAME),
        build_id=snapshot.build_id,
        position_independent=False,
        static=True,
        entry=0,
        interpreter="",
        needed=(),
        soname="",
        segments=tuple(segment for part in parts for segment in _segments(part)),
        sections=tuple(_section(part) for part in parts),
        symbols=tuple(_symbols(snapshot.symbols)) if named else (),
        frames=(),
        spans=spans,
        reserved=reserved.ranges(snapshot, sweep, spans, fentries),
        detours=flow.detours(parts, sweep, snapshot.symbols),
        returns=flow.returns(heads),
        dispatchers=flow.dispatchers(heads, snapshot.symbols),
        conventional=conventional,
    )
    return KernelImage(snapshot, image, sweep, np.sort(fentries))


def _borders(symbols: KernelSymbols, texts: list[TextRegion]) -> Addresses:
    """The addresses at which a section of code ends: no function reaches across them."""
    named = [address for address, _, name, _ in symbols.text() if functions.is_border(name)]
    return np.unique(np.array([*named, *(region.end for region in texts)], np.uint64))


def _entries(starts: Addresses, fentries: Addresses) -> frozenset[int]:
    """The functions at whose entry ftrace has an instruction. They are compiled with -pg, which rules out -fipa-ra
    (gcc(1)): callers know nothing about them but the calling convention.
    """
    rows = np.searchsorted(starts, fentries, "right") - 1
    return frozenset(starts[rows].tolist())


def _segments(part: KernelPart) -> list[LoadSegment]:
    both = ((part.text, True), (part.constants, False))
    return [LoadSegment(r.address, len(r.data), 0, r.data, code, False) for r, code in both if r.data]


def _section(part: KernelPart) -> Section:
    return Section(part.owner or NAME, part.text.address, len(part.text.data), 0, True)


def _symbols(symbols: KernelSymbols) -> list[ElfSymbol]:
    """The symbols, without those at low addresses, such as per-CPU offsets, which name no place in memory."""
    found = []
    lowest = 1 << 63
    for address, kind, name in zip(symbols.addresses.tolist(), symbols.kinds, symbols.names, strict=True):
        if address < lowest:
            continue
        text = kind in _TEXT and not functions.is_border(name)
        sort = SymbolKind.FUNC if text else SymbolKind.OBJECT if kind in _DATA else SymbolKind.NOTYPE
        found.append(ElfSymbol(name, address, 0, sort, kind.isupper(), kind.islower()))
    return found


def owner_at(image: Image, address: int) -> str:
    """The name of the module, or "kernel", whose text contains an address of a kernel's image; '' if none does."""
    return next((s.name for s in image.sections if s.address <= address < s.address + s.size), "")

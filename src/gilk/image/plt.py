# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds PLT stubs: the short jumps through the GOT by which calls reach imported functions.

GNU ld, gold and lld make them in several shapes (lazy, -z now, IBT); all of them are aligned and contain one ``jmp
*slot(%rip)``, which alone tells what a stub is for. lld's retpolines load the slot into %r11 instead.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Set

from gilk.image.extents import Extents, disjoint
from gilk.image.header import Header
from gilk.image.memory import MALFORMED, ImageMemory
from gilk.image.model import FrameDescription
from gilk.values import dataclass

SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")
# [endbr64] [bnd] jmp *disp32(%rip), or mov disp32(%rip), %r11
_STUB = re.compile(rb"(?:(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25|\x4c\x8b\x1d)(.{4})", re.DOTALL)
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Plt:
    """The stubs and their sections. ``stubs`` maps a stub's address to its GOT slot; ``extents`` are the ranges of
    bytes that are PLT, not functions.

    Extents are sorted and disjoint.
    """

    stubs: dict[int, int]
    extents: tuple[tuple[int, int], ...]


def parse(header: Header, memory: ImageMemory, slots: Set[int], frames: Collection[FrameDescription]) -> Plt:
    """The stubs that jump through one of ``slots``.

    If there are no section headers, an FDE that begins with a PLT's first entry or a stub is taken for a PLT, and code
    without an FDE (lld writes none for its PLTs) is searched for stubs.
    """
    extents = [(s.address, s.address + s.size) for s in header.sections if s.name in SECTIONS and s.loaded]
    searched = extents
    if not header.sections:
        extents = [(f.start, f.end) for f in frames if _is_plt(memory, f, slots)]
        searched = [*extents, *_uncovered(memory, frames)]
    stubs: dict[int, int] = {}
    for start, end in disjoint(searched):
        try:
            stubs.update(_stubs(memory.read(start, end - start), start, slots))
        except MALFORMED:
            continue
    return Plt(stubs, tuple(disjoint(extents)))


def _uncovered(memory: ImageMemory, frames: Iterable[FrameDescription]) -> tuple[tuple[int, int], ...]:
    executable = Extents(tuple((s.address, s.address + len(s.data)) for s in memory.segments if s.executable))
    return executable.without(disjoint((frame.start, frame.end) for frame in frames)).pairs


def _stubs(code: bytes, address: int, slots: Set[int]) -> list[tuple[int, int]]:
    found = []
    for match in _STUB.finditer(code):
        slot = _slot(match, address)
        if slot in slots and (address + match.start()) % _ALIGNMENT == 0:
            found.append((address + match.start(), slot))
    return found


def _slot(match: re.Match[bytes], address: int) -> int:
    (displacement,) = struct.unpack("<i", match[1])
    return int(address + match.end() + displacement)


def _is_plt(memory: ImageMemory, frame: FrameDescription, slots: Set[int]) -> bool:
    try:
        head = memory.read(frame.start, min(frame.end - frame.start, 32))
    except MALFORMED:
        return False
    # push GOT+8(%rip); [bnd] jmp *GOT+16(%rip)
    if re.match(rb"\xff\x35.{4}\xf2?\xff\x25.{4}", head, re.DOTALL):
        return True
    match = _STUB.match(head)
    return match is not None and _slot(match, frame.start) in slots

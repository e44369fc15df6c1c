# SPDX-License-Identifier: LGPL-2.1-or-later
"""The FDEs of .eh_frame: the extents of functions, and their landing pads.

Sources: Linux Standard Base, "Exception Frames"; GCC's unwind-dw2-fde.c for actual practice.
"""

from __future__ import annotations

import struct

from gilk.errors import ImageError
from gilk.image.encoding import OMIT, PCREL, SDATA4, EncodedTable, uleb
from gilk.image.header import PT_GNU_EH_FRAME, SHT_NOBITS, Header
from gilk.image.lsda import call_sites, landing_pads
from gilk.image.memory import MALFORMED, ImageMemory
from gilk.image.model import FrameDescription
from gilk.values import dataclass

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_PC = struct.Struct("<iI")  # the usual form of an FDE: its start as PCREL | SDATA4, then its length


@dataclass(frozen=True, slots=True)
class Cie:
    """The part that FDEs share: how their pointers are encoded. ``signal``: they are those of signal trampolines."""

    sized: bool  # 'z': augmentation data has a length
    pointers: int
    lsda: int  # encoding, or OMIT
    signal: bool


def parse(place: tuple[int, int], memory: ImageMemory) -> tuple[FrameDescription, ...]:
    """All FDEs of executable code, sorted by start; () if there is no table at ``place``, or a broken one."""
    try:
        table = table_at(place, memory)
        return () if table is None else _Walk(table, memory).frames()
    except MALFORMED:
        return ()


def locate(header: Header, memory: ImageMemory) -> tuple[int, int]:
    """The address and size of the table: those of its section, or from where PT_GNU_EH_FRAME points to the end of the
    segment.

    The size is 0 if there is no table, or a broken one.
    """
    section = header.section(".eh_frame")
    if section is not None and section.loaded and section.kind != SHT_NOBITS:
        return section.address, section.size
    program = header.program(PT_GNU_EH_FRAME)
    try:
        if program is not None:
            index = EncodedTable(memory.read(program.address, min(program.size, 64)), program.address, memory)
            address, _ = index.pointer(4, index.data[1], {0x30: program.address})
            return address, len(memory.tail(address))
    except MALFORMED:
        pass
    return 0, 0


def table_at(place: tuple[int, int], memory: ImageMemory) -> EncodedTable | None:
    """The table that locate() has found; None if there is none. Raises ImageError if it does not lie in one segment."""
    address, size = place
    return EncodedTable(memory.read(address, size), address, memory) if size else None


def entries(table: EncodedTable) -> list[tuple[int, int]]:
    """The offset of each entry's CIE pointer and that of its end; up to a length of 0, or an impossible one."""
    data, found, offset, limit = table.data, [], 0, len(table.data)
    while offset + 4 <= limit:
        (length,) = _U32.unpack_from(data, offset)
        body = offset + 4
        if length == 0xFFFFFFFF and body + 8 <= limit:
            (length,) = _U64.unpack_from(data, body)
            body += 8
        if length < 4 or body + length > limit:
            break
        found.append((body, body + length))
        offset = body + length
    return found


def extent(table: EncodedTable, cie: Cie, offset: int) -> tuple[int, int, int]:
    """The start and size in bytes of the FDE whose pointers are at ``offset``, and the offset behind them."""
    if cie.pointers == PCREL | SDATA4:
        start, size = _PC.unpack_from(table.data, offset)
        return start + table.address + offset if start else 0, size, offset + 8
    start, offset = table.pointer(offset, cie.pointers, {})
    size, offset = table.pointer(offset, cie.pointers & 0x07, {})
    return start, size, offset


class _Walk:
    """One pass over the table. Each CIE is parsed once; broken entries are skipped."""

    def __init__(self, table: EncodedTable, memory: ImageMemory) -> None:
        self.table = table
        self.memory = memory
        self.cies: dict[int, Cie | None] = {}
        self.tables: dict[int, EncodedTable] = {}  # the contents of segments that hold LSDAs, by their start
        self.budget = memory.size  # the bytes of call sites left to read: many FDEs could claim one huge LSDA

    def frames(self) -> tuple[FrameDescription, ...]:
        found = []
        for body, end in entries(self.table):
            try:
                frame = self._frame(body, end)
            except MALFORMED:
                continue
            if frame is not None:
                found.append(frame)
        return tuple(sorted(found, key=lambda frame: (frame.start, frame.end)))

    def _frame(self, body: int, end: int) -> FrameDescription | None:
        """The FDE whose CIE pointer is at ``body``; None for a CIE, or for an FDE of code that was discarded."""
        (back,) = _U32.unpack_from(self.table.data, body)
        cie = self._cie(body - back) if back else None
        if cie is None:
            return None
        start, size, cursor = extent(self.table, cie, body + 4)
        if not size or cursor > end or not self.memory.executable(start):
            return None
        pads = self._pads(cie, cursor, start) if cie.lsda != OMIT and cursor < end else ()
        return FrameDescription(start, start + size, pads, cie.signal)

    def _pads(self, cie: Cie, offset: int, function: int) -> tuple[int, ...]:
        """The landing pads of a function; () if the LSDA is broken, since the function's extent is still good."""
        try:
            if cie.sized:
                _, offset = uleb(self.table.data, offset)
            address, _ = self.table.pointer(offset, cie.lsda, {})
            if not address or self.budget <= 0:
                return ()
            table = self._table_at(address)
            sites = call_sites(table, address - table.address, function)
            self.budget -= sites.end - sites.start
            pads = landing_pads(sites)
        except MALFORMED:
            return ()
        return tuple(pad for pad in pads if self.memory.executable(pad))

    def _table_at(self, address: int) -> EncodedTable:
        segment = self.memory.segment_at(address)
        if segment is None:
            raise ImageError("elf-malformed", f"no exception table at {address:#x}")
        if segment.address not in self.tables:
            self.tables[segment.address] = EncodedTable(segment.data, segment.address, self.memory)
        return self.tables[segment.address]

    def _cie(self, offset: int) -> Cie | None:
        if offset not in self.cies:
            try:
                self.cies[offset] = parse_cie(self.table, offset)
            except MALFORMED:
                self.cies[offset] = None
        return self.cies[offset]


def parse_cie(table: EncodedTable, offset: int) -> Cie | None:
    """The CIE at ``offset``; None if there is none. Raises one of MALFORMED for a CIE that is not understood."""
    data = table.data
    if offset < 0:
        return None
    body = offset + (12 if _U32.unpack_from(data, offset)[0] == 0xFFFFFFFF else 4)
    if _U32.unpack_from(data, body)[0] != 0:
        return None
    version, augmentation = data[body + 4], data[body + 5 : body + 37].partition(b"\0")[0]
    cursor = body + 5 + len(augmentation) + 1
    if augmentation == b"eh":  # GCC 2: a pointer to its own table
        return Cie(False, 0, OMIT, False)
    if version == 4:  # address size, segment size
        cursor += 2
    _, cursor = uleb(data, cursor)
    _, cursor = uleb(data, cursor)  # data alignment: signed, but of the same length
    cursor = cursor + 1 if version == 1 else uleb(data, cursor)[1]
    return _augmented(table, augmentation, cursor)


def _augmented(table: EncodedTable, augmentation: bytes, cursor: int) -> Cie | None:
    pointers, lsda, signal = 0, OMIT, False
    sized = augmentation.startswith(b"z")
    if sized:
        _, cursor = uleb(table.data, cursor)
    for letter in augmentation[sized:].decode("latin-1"):
        if letter == "R":
            pointers, cursor = table.data[cursor], cursor + 1
        elif letter == "L":
            lsda, cursor = table.data[cursor], cursor + 1
        elif letter == "P":
            cursor = _skip_pointer(table, cursor)
        elif letter == "S":
            signal = True
        elif letter not in "B":
            return None if not sized else Cie(sized, pointers, lsda, signal)
    return Cie(sized, pointers, lsda, signal)


def _skip_pointer(table: EncodedTable, cursor: int) -> int:
    """The offset behind the encoding and the value of the personality routine's address."""
    _, end = table.pointer(cursor + 1, table.data[cursor] & 0x0F, {})
    return end

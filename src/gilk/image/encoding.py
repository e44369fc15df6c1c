# SPDX-License-Identifier: LGPL-2.1-or-later
"""The encodings of numbers in DWARF: LEB128, and the DW_EH_PE pointers of exception tables.

The pointer encodings are those of the Linux Standard Base, "DWARF Extensions".
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from gilk.errors import ImageError
from gilk.image.memory import ImageMemory
from gilk.values import dataclass

OMIT = 0xFF
PCREL, TEXTREL, DATAREL, FUNCREL = 0x10, 0x20, 0x30, 0x40
INDIRECT = 0x80
SDATA4 = 0x0B
_FIXED = {
    0x00: struct.Struct("<Q"),  # absptr
    0x02: struct.Struct("<H"),
    0x03: struct.Struct("<I"),
    0x04: struct.Struct("<Q"),
    0x08: struct.Struct("<q"),  # signed absptr
    0x0A: struct.Struct("<h"),
    0x0B: struct.Struct("<i"),
    0x0C: struct.Struct("<q"),
}
_ADDRESS = (1 << 64) - 1


def uleb(data: bytes, offset: int) -> tuple[int, int]:
    """The LEB128 number at ``offset``, and the offset behind it. Raises IndexError at the end of ``data``, ImageError
    for a number of more than 70 bits.
    """
    byte = data[offset]
    if byte < 0x80:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise ImageError("elf-malformed", "LEB128 number without an end")
        offset += 1
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, offset + 1


def sleb(data: bytes, offset: int) -> tuple[int, int]:
    """The signed LEB128 number at ``offset``, and the offset behind it."""
    value, end = uleb(data, offset)
    bits = 7 * (end - offset)
    return value - (1 << bits) if value >> (bits - 1) else value, end


def reader(encoding: int) -> Callable[[bytes, int], tuple[int, int]]:
    """The function that reads a number of the format in the low half of ``encoding``. Raises ImageError for an unknown
    format.
    """
    form = encoding & 0x0F
    if form == 0x01:
        return uleb
    if form == 0x09:
        return sleb
    if form not in _FIXED:
        raise ImageError("elf-malformed", f"unknown pointer encoding {encoding:#x}")
    layout = _FIXED[form]

    def fixed(data: bytes, offset: int) -> tuple[int, int]:
        return layout.unpack_from(data, offset)[0], offset + layout.size

    return fixed


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """The bytes of an exception table: ``data[0]`` lies at ``address``; ``memory`` is needed for indirect pointers."""

    data: bytes
    address: int
    memory: ImageMemory

    def pointer(self, offset: int, encoding: int, bases: dict[int, int]) -> tuple[int, int]:
        """The address of the pointer at ``offset``, and the offset behind it; 0 is the null pointer in any encoding.

        ``bases`` has the addresses that TEXTREL, DATAREL and FUNCREL are relative to.
        """
        value, end = reader(encoding)(self.data, offset)
        if value == 0:
            return 0, end
        how = encoding & 0x70
        if how == PCREL:
            value += self.address + offset
        elif how:
            if how not in bases:
                raise ImageError("elf-malformed", f"unknown pointer encoding {encoding:#x}")
            value += bases[how]
        value &= _ADDRESS
        if encoding & INDIRECT:
            (value,) = struct.unpack("<Q", self.memory.read(value, 8))
        return value, end

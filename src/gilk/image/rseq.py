# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restartable sequences: code that the kernel aborts by its address, and which must therefore not be moved.

linux/rseq.h and rseq(2) of librseq describe ``struct rseq_cs`` and the signature before the abort handler.
"""

from __future__ import annotations

import struct

from iced_x86 import Decoder

from gilk.image.header import Header
from gilk.image.memory import MALFORMED, ImageMemory

REFUSAL = "rseq"
_SIGNATURE = 4  # the number of bytes before the handler that the kernel compares
_DESCRIPTOR = struct.Struct("<IIQQQ")


def reserved(header: Header, memory: ImageMemory, relative: dict[int, int]) -> tuple[tuple[int, int, str], ...]:
    """The ranges (start, end, "rseq") of every critical section, and of the signature and first instruction of its
    abort handler.

    The rest of a handler is ordinary code.
    """
    section = header.section("__rseq_cs")
    if section is None:
        return ()
    try:
        content = memory.read(section.address, section.size)
    except MALFORMED:
        return ()
    found = set()
    for offset in range(0, len(content) - _DESCRIPTOR.size + 1, _DESCRIPTOR.size):
        found.update(_extents(content, offset, section.address + offset, memory, relative))
    return tuple(sorted(found))


def _extents(
    content: bytes, offset: int, address: int, memory: ImageMemory, relative: dict[int, int]
) -> list[tuple[int, int, str]]:
    _, _, start, size, abort = _DESCRIPTOR.unpack_from(content, offset)
    start, abort = relative.get(address + 8, start), relative.get(address + 24, abort)
    if not memory.executable(start) or not memory.executable(start + size - 1):
        return []
    extents = [(start, start + size, REFUSAL)]
    if memory.executable(abort):
        extents.append((abort - _SIGNATURE, abort + _instruction(memory, abort), REFUSAL))
    return extents


def _instruction(memory: ImageMemory, address: int) -> int:
    """The length in bytes of the instruction at ``address``; 1 if it does not decode."""
    data, offset = memory.locate(address)
    return max(Decoder(64, data[offset : offset + 15], ip=address).decode().len, 1)

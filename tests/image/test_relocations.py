# SPDX-License-Identifier: LGPL-2.1-or-later
"""Relocations, against readelf."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from gilk.errors import ImageError
from gilk.image import relocations
from gilk.image.elf import load
from gilk.image.memory import ImageMemory
from gilk.image.model import LoadSegment

RELATIVE = re.compile(r"^([0-9a-f]+) +[0-9a-f]+ R_X86_64_RELATIVE +([0-9a-f]+)$", re.MULTILINE)
NAMED = re.compile(r"^([0-9a-f]+) +[0-9a-f]+ R_X86_64_(?:GLOB_DAT|JUMP_SLOT?) +[0-9a-f]+ ([^@\s]+)", re.MULTILINE)


def test_relocations_are_readelfs(system_file: Path, oracle: Callable[..., str]) -> None:
    text = oracle("readelf", "-rW", system_file)
    image = load(system_file)
    relative = {int(slot, 16): int(addend, 16) for slot, addend in RELATIVE.findall(text)}
    assert relative.items() <= image.relative.items()
    assert image.got == {int(slot, 16): name for slot, name in NAMED.findall(text)}
    assert image.relative or image.path.name == "gdb"


def test_packed_relocations_are_the_same_as_plain_ones(build: Callable[..., Path], sources: dict[str, str]) -> None:
    plain = load(build(sources["small"], "-Wl,-z,nopack-relative-relocs"))
    packed = load(build(sources["small"], "-Wl,-z,pack-relative-relocs"))

    def pointed(image: object) -> set[str]:
        spans = {span.start: span.name for span in image.spans}  # type: ignore[attr-defined]
        return {spans[addend] for addend in image.relative.values() if addend in spans}  # type: ignore[attr-defined]

    assert {"first", "second"} <= pointed(plain)
    assert pointed(packed) == pointed(plain)
    assert len(packed.relative) == len(plain.relative)


def test_a_relr_bitmap_names_the_63_words_after_the_last() -> None:
    memory = ImageMemory((LoadSegment(0x1000, 0x1000, 0, bytes(0x1000), False, True),))
    words = numpy.array([0x1000, 1 | 1 << 1 | 1 << 63, 1 | 1 << 2, 0x1F00], numpy.uint64)
    slots = [0x1000, 0x1008, 0x1008 + 62 * 8, 0x1008 + 63 * 8 + 8, 0x1F00]
    assert relocations._relr_slots(words, memory).tolist() == slots


def test_more_slots_than_words_are_refused() -> None:
    memory = ImageMemory((LoadSegment(0x1000, 0x100, 0, bytes(0x100), False, True),))
    with pytest.raises(ImageError, match="more relative relocations"):
        relocations._relr_slots(numpy.full(100, (1 << 64) - 1, numpy.uint64), memory)


def test_words_are_read_only_where_the_file_has_content() -> None:
    data = struct.pack("<4Q", 1, 2, 3, 4)
    memory = ImageMemory(
        (LoadSegment(0x10, 0x40, 0, data, False, True), LoadSegment(0x100, 8, 0, data[:8], False, True))
    )
    found = memory.words(numpy.array([0x18, 0x20, 0x28, 0x29, 0x30, 0x100, 0xFFFFFFFFFFFFFFFF], numpy.uint64))
    assert [column.tolist() for column in found] == [[0x18, 0x20, 0x28, 0x100], [2, 3, 4, 1]]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The language of a unit (DWARF 5, section 7.12), as far as it decides how functions are called."""

from __future__ import annotations

from gilk.image.dwarf.entries import DebugUnit, Entries

AT_LANGUAGE = 0x13
#: C, C++, Objective-C, UPC, OpenCL and HIP in all their editions, and assemblers: the calling convention is C's.
_LIKE_C = frozenset(
    (
        *(0x01, 0x02, 0x04, 0x0C, 0x10, 0x11, 0x12, 0x15, 0x19, 0x1A, 0x1D, 0x21, 0x2A, 0x2B, 0x2C, 0x30, 0x31, 0x3A),
        *(0x3E, 0x8001),
    )
)
_NAMES = {
    0x03: "Ada", 0x07: "Fortran", 0x08: "Fortran", 0x0D: "Ada", 0x0E: "Fortran", 0x13: "D", 0x16: "Go", 0x18: "Haskell",
    0x1B: "OCaml", 0x1C: "Rust", 0x1E: "Swift", 0x1F: "Julia", 0x22: "Fortran", 0x23: "Fortran", 0x26: "Kotlin",
    0x27: "Zig", 0x28: "Crystal", 0x2D: "Fortran", 0x2E: "Ada", 0x2F: "Ada",
}  # fmt: skip


def is_foreign(language: int | None) -> bool:
    """Whether functions of a language, by its number in DWARF, are called otherwise than C's."""
    return language is not None and language not in _LIKE_C


def foreign(entries: Entries, unit: DebugUnit) -> str:
    """The name of the unit's language; '' if it calls functions as C does, or if the unit does not tell. Raises
    ImageError.
    """
    language = entries.entry(unit.first).number(AT_LANGUAGE)
    if language is None or not is_foreign(language):
        return ""
    return _NAMES.get(language, f"language {language:#x} of DWARF")

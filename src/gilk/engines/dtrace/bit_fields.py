# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bit-fields as debug information and BTF describe them: an offset in bits in a struct of a size in bytes."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang import types
from gilk.lang.types import Enumeration, Integer, Member


def bit_field(name: str, type_: Integer | Enumeration, at: int, bits: int, whole: int) -> Member | None:
    """The member for ``bits`` bits from bit ``at`` on, in a struct of ``whole`` bytes.

    None if no integer inside the struct can hold them: those of a packed struct may span nine bytes.
    """
    size = types.size_of(type_, 1)
    sizes = (size, 1, 2, 4, 8) if isinstance(type_, Integer) else (size,)
    for size in filter(None, sizes):
        start = _container(at, bits, size, whole)
        if start is not None:
            held = replace(type_, size=size) if isinstance(type_, Integer) else type_
            return Member(name, held, start, bits, at - 8 * start)
    return None


def _container(at: int, bits: int, size: int, whole: int) -> int | None:
    """The offset at which ``size`` bytes of the struct contain these bits; None if none does."""
    for start in (at // (8 * size) * size, at // 8, whole - size):
        if 0 <= start <= whole - size and 0 <= at - 8 * start <= 8 * size - bits:
            return start
    return None

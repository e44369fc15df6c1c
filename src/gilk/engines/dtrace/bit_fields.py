# SPDX-License-Identifier: LGPL-2.1-or-later
"""Bit-fields, as debug information and BTF have them: a place in bits, in a struct of so many bytes."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang import types
from gilk.lang.types import Enumeration, Integer, Member


def bit_field(name: str, type_: Integer | Enumeration, at: int, bits: int, whole: int) -> Member | None:
    """``bits`` bits from bit ``at`` on of a struct of ``whole`` bytes; None where no integer in it holds them: of a
    packed struct, over nine bytes."""
    size = types.size_of(type_, 1)
    sizes = (size, 1, 2, 4, 8) if isinstance(type_, Integer) else (size,)
    for size in filter(None, sizes):
        start = _container(at, bits, size, whole)
        if start is not None:
            held = replace(type_, size=size) if isinstance(type_, Integer) else type_
            return Member(name, held, start, bits, at - 8 * start)
    return None


def _container(at: int, bits: int, size: int, whole: int) -> int | None:
    """Where ``size`` bytes of the struct begin that hold these bits of it."""
    for start in (at // (8 * size) * size, at // 8, whole - size):
        if 0 <= start <= whole - size and 0 <= at - 8 * start <= 8 * size - bits:
            return start
    return None

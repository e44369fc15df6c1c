# SPDX-License-Identifier: LGPL-2.1-or-later
"""The integer register in which each parameter is passed (System V ABI for AMD64, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.types import Array, Enumeration, Float, Integer, Pointer, Record, Type, Void, size_of

_REGISTERS = 6
_LARGEST = 16  # bytes of the largest struct that is passed in registers


def placed(parameters: Sequence[Type]) -> tuple[tuple[Type, int | None], ...]:
    """Each parameter's type with the number of its register; None if it is not passed in one register."""
    found: list[tuple[Type, int | None]] = []
    used = 0
    for type_ in parameters:
        needs = _needs(type_)
        fits = used + needs <= _REGISTERS
        alone = isinstance(type_, Integer | Enumeration | Pointer)
        found.append((type_, used if alone and fits else None))
        used += needs if fits else 0
    return tuple(found)


def returned(type_: Type) -> tuple[tuple[Type, int | None], ...]:
    """The arguments of a return probe after the offset: the value, with its number, or None if it is not in one
    register."""
    return () if isinstance(type_, Void) else ((type_, 1 if _needs(type_) == 1 and not _is_record(type_) else None),)


def _is_record(type_: Type) -> bool:
    return isinstance(type_, Record | Array)


def _needs(type_: Type) -> int:
    """How many integer registers a value of the type needs."""
    if not _is_record(type_):
        return int(isinstance(type_, Integer | Enumeration | Pointer))
    size = size_of(type_, 0)
    if not 0 < size <= _LARGEST:
        return 0
    return len({offset // 8 for offset, leaf in _leaves(type_, 0) if not isinstance(leaf, Float)})


def _leaves(type_: Type, offset: int) -> Iterator[tuple[int, Type]]:
    if isinstance(type_, Record):
        for member in type_.members:
            yield from _leaves(member.type, offset + member.offset)
    elif isinstance(type_, Array):
        for number in range(min(type_.count, _LARGEST)):
            yield from _leaves(type_.of, offset + number * size_of(type_.of, 0))
    else:
        yield offset, type_

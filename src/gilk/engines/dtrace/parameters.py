# SPDX-License-Identifier: LGPL-2.1-or-later
"""The integer register in which each parameter is passed (System V ABI for AMD64, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.types import VOID, Array, Enumeration, Float, Integer, Pointer, Record, Type, Void, align_of, size_of
from gilk.values import dataclass

_REGISTERS = 6
_LARGEST = 16  # bytes of the largest struct that is passed in registers


@dataclass(frozen=True, slots=True)
class PassedParameter:
    """A parameter. ``registers``: how many integer registers it takes, if there are as many left; None if that is not
    known."""

    type: Type
    registers: int | None


@dataclass(frozen=True, slots=True)
class CallSignature:
    """A function's parameters and its result. ``hidden``: how many registers come before the parameters: one, if the
    caller passes the address for the result; None if that is not known."""

    result: Type
    parameters: tuple[PassedParameter, ...]
    hidden: int | None = 0

    @property
    def arguments(self) -> tuple[tuple[Type, int | None], ...]:
        """Each parameter's type with the number of its register; None if it is not passed in one register, or if the
        register is not known."""
        found: list[tuple[Type, int | None]] = []
        used = self.hidden
        for each in self.parameters:
            needs = each.registers
            fits = used is not None and needs is not None and used + needs <= _REGISTERS
            alone = isinstance(each.type, Integer | Enumeration | Pointer)
            found.append((each.type, used if alone and fits else None))
            used = None if used is None or needs is None else used + (needs if fits else 0)
        return tuple(found)


def of_c(result: Type, parameters: Sequence[Type]) -> CallSignature:
    """The signature of a function in C."""
    return CallSignature(result, tuple(PassedParameter(each, registers(each)) for each in parameters), hidden(result))


def placed(parameters: Sequence[Type], result: Type = VOID) -> tuple[tuple[Type, int | None], ...]:
    """The arguments of a function in C (CallSignature.arguments)."""
    return of_c(result, parameters).arguments


def returned(type_: Type) -> tuple[tuple[Type, int | None], ...]:
    """The arguments of a return probe after the offset: the value, with its number, or None if it is not in one
    register."""
    in_one = registers(type_) == 1 and not _is_record(type_)
    return () if isinstance(type_, Void) else ((type_, 1 if in_one else None),)


def registers(type_: Type) -> int:
    """How many integer registers a value of the type needs, of a type that C has."""
    if not _is_record(type_):
        return int(isinstance(type_, Integer | Enumeration | Pointer))
    if _in_memory(type_):
        return 0
    return len({offset // 8 for offset, leaf, _ in _leaves(type_, 0) if not isinstance(leaf, Float)})


def hidden(result: Type) -> int:
    """How many registers the address for the result takes, of a type that C has."""
    return int(_is_record(result) and _in_memory(result))


def _is_record(type_: Type) -> bool:
    return isinstance(type_, Record | Array)


def _in_memory(type_: Type) -> bool:
    """Whether a struct is passed in memory, since it is large, or a member of it is not aligned."""
    if size_of(type_, 0) > _LARGEST:
        return True
    return any(offset % max(align_of(leaf), 1) for offset, leaf, bits in _leaves(type_, 0) if not bits)


def _leaves(type_: Type, offset: int, bits: int = 0) -> Iterator[tuple[int, Type, int]]:
    """The scalar members, each with its offset and the width of a bit-field."""
    if isinstance(type_, Record):
        for member in type_.members:
            yield from _leaves(member.type, offset + member.offset, member.bits)
    elif isinstance(type_, Array):
        for number in range(min(type_.count, _LARGEST)):
            yield from _leaves(type_.of, offset + number * size_of(type_.of, 0))
    else:
        yield offset, type_, bits

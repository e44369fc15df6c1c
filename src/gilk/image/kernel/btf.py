# SPDX-License-Identifier: LGPL-2.1-or-later
"""BTF, the description of a kernel's types: /sys/kernel/btf/vmlinux, and one file for each module.

Documentation/bpf/btf.rst of Linux has the format. Type 0 is ``void``. A module's types and strings continue those of
vmlinux ("split BTF"). At first only an index is made; a type is decoded when it is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property
from typing import Final

from gilk.errors import ImageError
from gilk.values import dataclass

_MAGIC: Final = 0xEB9F
_HEADER: Final = struct.Struct("<HBBIIIII")
_TYPE: Final = struct.Struct("<III")
_MOST_DEEP: Final = 64  # the longest chain of types that refer to one another, in a file that is not hostile


class TypeKind(IntEnum):
    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


_AROUND: Final = frozenset({TypeKind.TYPEDEF, TypeKind.VOLATILE, TypeKind.CONST, TypeKind.RESTRICT, TypeKind.TYPE_TAG})
#: The sizes in bytes of the part behind the common one: a fixed size, and a size for each of ``vlen`` members.
_FIXED: Final = {TypeKind.INT: 4, TypeKind.ARRAY: 12, TypeKind.VAR: 4, TypeKind.DECL_TAG: 4}
_EACH: Final = {
    TypeKind.STRUCT: 12, TypeKind.UNION: 12, TypeKind.ENUM: 8, TypeKind.FUNC_PROTO: 8,
    TypeKind.DATASEC: 12, TypeKind.ENUM64: 12,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """The common part of a type. ``size`` is in bytes, or is the number of the type that this one refers to.

    ``flag`` is BTF's kind_flag: bit fields in a struct, a union among forward declarations, signed enumerations.
    """

    number: int
    kind: TypeKind
    name: str
    count: int
    flag: bool
    size: int
    at: int  # the offset behind the common part


@dataclass(frozen=True, slots=True)
class BtfMember:
    """A member of a struct or union. ``offset`` is in bits from the start; ``bits`` is a bit field's width, 0 for
    others.
    """

    name: str
    type: int
    offset: int
    bits: int


class Btf:
    """The types of a kernel, or with ``base`` those of one of its modules."""

    def __init__(self, data: bytes, base: Btf | None = None) -> None:
        """Raises ImageError `btf-malformed`."""
        self.base = base
        try:
            self._types, self._strings = _sections(data)
            self._offsets = tuple(_offsets(self._types))
        except struct.error as error:
            raise ImageError("btf-malformed", f"the kernel's BTF cannot be read: {error}") from None
        self.first = base.end if base else 1
        self._first_string = base.string_end if base else 0

    @property
    def end(self) -> int:
        """One more than the number of the last type."""
        return self.first + len(self._offsets)

    @property
    def string_end(self) -> int:
        return self._first_string + len(self._strings)

    def type(self, number: int) -> Type:
        """The type with that number. Raises ImageError `btf-malformed` if there is none."""
        if self.base and number < self.first:
            return self.base.type(number)
        if number == 0:
            return Type(0, TypeKind.VOID, "void", 0, False, 0, 0)
        if not self.first <= number < self.end:
            raise ImageError("btf-malformed", f"the kernel's BTF has no type {number}")
        at = self._offsets[number - self.first]
        name, info, size = _TYPE.unpack_from(self._types, at)
        return Type(
            number, TypeKind(info >> 24 & 31), self.string(name), info & 0xFFFF, bool(info >> 31), size, at + 12
        )

    def string(self, offset: int) -> str:
        if self.base and offset < self._first_string:
            return self.base.string(offset)
        start = offset - self._first_string
        end = self._strings.find(b"\0", start)
        if not 0 <= start < len(self._strings) or end < 0:
            raise ImageError("btf-malformed", f"the kernel's BTF has no string at {offset:#x}")
        return self._strings[start:end].decode(errors="replace")

    def words(self, of: Type, offset: int, count: int) -> tuple[int, ...]:
        """``count`` 32-bit words, ``offset`` bytes behind a type's common part. Raises ImageError `btf-malformed`."""
        if self.base and of.number < self.first:
            return self.base.words(of, offset, count)
        if of.at + offset + 4 * count > len(self._types):
            raise ImageError("btf-malformed", "the kernel's BTF ends in the middle of a type")
        return struct.unpack_from(f"<{count}I", self._types, of.at + offset)

    def members(self, of: Type) -> Iterator[BtfMember]:
        """The members of a struct or union, in order."""
        words = self.words(of, 0, 3 * of.count)
        for name, kind, offset in zip(words[::3], words[1::3], words[2::3], strict=True):
            place, bits = (offset & 0xFFFFFF, offset >> 24) if of.flag else (offset, 0)
            yield BtfMember(self.string(name), kind, place, bits)

    def find(self, name: str, *kinds: TypeKind) -> Type | None:
        """The type of that name and of one of ``kinds``, in this file or in the one it continues; None if there is
        none.
        """
        for kind in kinds:
            number = self._named.get((name, kind))
            if number is not None:
                return self.type(number)
        return self.base.find(name, *kinds) if self.base else None

    def bare(self, number: int) -> Type:
        """The type without typedefs and qualifiers. Raises ImageError `btf-malformed` if they go round in a circle."""
        for _ in range(_MOST_DEEP):
            found = self.type(number)
            if found.kind not in _AROUND:
                return found
            number = found.size
        raise ImageError("btf-malformed", f"the kernel's BTF has a type {number} that contains itself")

    @cached_property
    def _named(self) -> dict[tuple[str, TypeKind], int]:
        """The number of the first type of each name and kind."""
        found: dict[tuple[str, TypeKind], int] = {}
        wanted = {
            TypeKind.STRUCT,
            TypeKind.UNION,
            TypeKind.ENUM,
            TypeKind.ENUM64,
            TypeKind.TYPEDEF,
            TypeKind.FUNC,
            TypeKind.VAR,
            TypeKind.INT,
        }
        for row, at in enumerate(self._offsets):
            name, info = struct.unpack_from("<II", self._types, at)
            kind = info >> 24 & 31
            if name and kind in wanted:
                found.setdefault((self.string(name), TypeKind(kind)), self.first + row)
        return found


def _sections(data: bytes) -> tuple[bytes, bytes]:
    magic, version, _, length, type_at, type_size, string_at, string_size = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != 1:
        raise ImageError("btf-malformed", "the kernel's BTF does not begin with its magic number")
    types, strings = (length + type_at, length + type_at + type_size), (length + string_at,)
    if types[1] > len(data) or strings[0] + string_size > len(data):
        raise ImageError("btf-malformed", "the kernel's BTF is cut short")
    return data[slice(*types)], data[strings[0] : strings[0] + string_size]


def _offsets(types: bytes) -> Iterator[int]:
    """The offset at which each type begins. Raises ImageError `btf-malformed` for unknown kinds."""
    fixed = {int(kind): _FIXED.get(kind, 0) for kind in TypeKind}
    each = {int(kind): _EACH.get(kind, 0) for kind in TypeKind}
    at, end, unpack = 0, len(types), struct.Struct("<I").unpack_from
    while at < end:
        yield at
        (info,) = unpack(types, at + 4)
        kind = info >> 24 & 31
        if kind not in fixed:
            raise ImageError("btf-malformed", f"the kernel's BTF has types of an unknown kind, {kind}")
        at += 12 + fixed[kind] + each[kind] * (info & 0xFFFF)
    if at != end:
        raise ImageError("btf-malformed", "the kernel's BTF ends in the middle of a type")

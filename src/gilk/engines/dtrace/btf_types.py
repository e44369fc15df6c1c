# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of D from BTF, that of the kernel or of one of its modules; each type is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gilk.engines.dtrace.bit_fields import bit_field
from gilk.engines.dtrace.nesting import LARGEST, Nesting
from gilk.errors import ImageError
from gilk.image.kernel.btf import Btf, BtfMember, TypeKind
from gilk.image.kernel.btf import Type as BtfType
from gilk.lang import types
from gilk.lang.types import Array, Enumeration, Float, Integer, Member, Pointer, Record, Type

_KINDS = {TypeKind.STRUCT: "struct", TypeKind.UNION: "union"}
_NAMED = {
    "struct": (TypeKind.STRUCT,),
    "union": (TypeKind.UNION,),
    "enum": (TypeKind.ENUM, TypeKind.ENUM64),
    "": (TypeKind.TYPEDEF, TypeKind.INT),
}
_SIZES = (1, 2, 4, 8)
_RANKS = {1: 0, 2: 1, 4: 2, 8: 3}
_SIGNED = 1  # the bit in an integer's encoding for a signed one


class BtfTypes:
    """The types in one BTF. ``name``: begins the origin of its structs."""

    def __init__(self, name: str, btf: Btf) -> None:
        self._name = name
        self._btf = btf
        self._nesting = Nesting[int](self._malformed)

    def named(self, kind: str, name: str) -> Type | None:
        """The type of that name. ``kind``: struct, union, enum, or "" for a typedef or a basic type; None if there is
        none. Raises ImageError."""
        found = self._btf.find(name, *_NAMED[kind])
        if found is None:
            return None
        made = self._type(found.number)
        return self.completed(made) if isinstance(made, Record) else made

    def variable(self, name: str) -> Type | None:
        """The type of a variable; None if BTF lacks it, which has only per-CPU variables. Raises ImageError."""
        found = self._btf.find(name, TypeKind.VAR)
        return None if found is None else self._type(found.size)

    def function(self, name: str) -> tuple[Type, tuple[Type, ...]] | None:
        """The return type and the parameters' types of a function; None if BTF does not have it. Raises ImageError."""
        found = self._btf.find(name, TypeKind.FUNC)
        if found is None:
            return None
        proto = self._btf.type(found.size)
        words = self._btf.words(proto, 0, 2 * proto.count)
        given = [number for text, number in zip(words[::2], words[1::2], strict=True) if text or number]
        return self._type(proto.size), tuple(self._type(number) for number in given)

    def tracepoint(self, name: str) -> tuple[Type, ...] | None:
        """The types of a tracepoint's arguments, from the type of its probe functions; None if BTF lacks it. Raises
        ImageError."""
        found = self._btf.find(f"btf_trace_{name}", TypeKind.TYPEDEF)
        if found is None:
            return None
        proto = self._btf.bare(self._btf.bare(found.size).size)
        if proto.kind is not TypeKind.FUNC_PROTO:
            return None
        words = self._btf.words(proto, 0, 2 * proto.count)
        return tuple(self._type(number) for number in words[3::2])  # the first is the probe function's own

    def completed(self, record: Record) -> Record:
        """The record with its members, if its origin is in this BTF. Raises ImageError."""
        if record.complete:
            return record
        entry = self._btf.type(int(record.origin.rpartition(":")[2], 16))
        return record if entry.kind not in _KINDS else self._record(entry)

    # Types, by their numbers.

    def _type(self, number: int) -> Type:
        return self._nesting.of(number, lambda: self._new(number))

    def _new(self, number: int) -> Type:
        entry = self._btf.type(number)
        return _MAKERS.get(entry.kind, BtfTypes._nothing)(self, entry)

    def _malformed(self, what: str) -> ImageError:
        return ImageError("btf-malformed", f"{self._name}: {what}")

    def _nothing(self, entry: BtfType) -> Type:
        """Void, for entries that have no value: void itself, or the function that a pointer leads to."""
        return types.VOID

    def _through(self, entry: BtfType) -> Type:
        """The type behind a qualifier."""
        return self._type(entry.size)

    def _integer(self, entry: BtfType) -> Type:
        """The integer type. C's own types are taken from the D compiler: BTF does not always tell that a char is
        signed."""
        if entry.size not in _SIZES:
            return Array(types.UINT64, entry.size // 8)  # __int128
        known = types.basic(tuple(entry.name.split()))
        if isinstance(known, Integer) and known.size == entry.size:
            return known
        (encoding,) = self._btf.words(entry, 0, 1)
        return Integer(entry.name, entry.size, bool(encoding >> 24 & _SIGNED), _RANKS[entry.size])

    def _float(self, entry: BtfType) -> Type:
        return Float(entry.name, entry.size)

    def _pointer(self, entry: BtfType) -> Type:
        """A pointer. A struct that it leads to is only named, since that may lead back here."""
        to = self._btf.bare(entry.size)
        named = to.kind in _KINDS or to.kind is TypeKind.FWD
        return Pointer(self._only_named(to) if named else self._type(entry.size))

    def _only_named(self, entry: BtfType) -> Record:
        kind = _KINDS.get(entry.kind, "union" if entry.flag else "struct")
        return Record(kind, entry.name, f"{self._name}:{entry.number:x}", complete=False)

    def _forward(self, entry: BtfType) -> Type:
        return self._only_named(entry)

    def _typedef(self, entry: BtfType) -> Type:
        found = self._type(entry.size)
        return replace(found, name=entry.name) if isinstance(found, Integer) else found

    def _array(self, entry: BtfType) -> Type:
        element, _, count = self._btf.words(entry, 0, 3)
        found = Array(self._type(element), count)
        if types.size_of(found, 1) >= LARGEST:
            raise self._malformed(f"an array of {count} elements")
        return found

    def _enumeration(self, entry: BtfType) -> Type:
        """The type of an enumeration; one that does not have the size of an int is a mere integer."""
        if entry.kind is not TypeKind.ENUM or entry.size != 4:
            size = entry.size if entry.size in _SIZES else 8
            return Integer(f"enum {entry.name}", size, entry.flag, _RANKS[size])
        words = self._btf.words(entry, 0, 2 * entry.count)
        rows = zip(words[::2], words[1::2], strict=True)
        return Enumeration(entry.name, tuple((self._btf.string(name), types.signed(value, 4)) for name, value in rows))

    def _record(self, entry: BtfType) -> Record:
        members = [made for each in self._btf.members(entry) if (made := self._member(each, entry.size))]
        align = max((types.align_of(each.type) for each in members), default=1)
        found = self._only_named(entry)
        return replace(found, size=entry.size, align=align, members=tuple(members), complete=True)

    def _member(self, entry: BtfMember, whole: int) -> Member | None:
        """The member; None if it does not lie within the struct's ``whole`` bytes."""
        type_ = self._type(entry.type)
        if entry.bits and isinstance(type_, Integer | Enumeration):
            return bit_field(entry.name, type_, entry.offset, entry.bits, whole)
        fits = entry.offset % 8 == 0 and entry.offset // 8 <= whole - types.size_of(type_, 1)
        return Member(entry.name, type_, entry.offset // 8) if fits and not entry.bits else None


_MAKERS: dict[TypeKind, Callable[[BtfTypes, BtfType], Type]] = {
    TypeKind.INT: BtfTypes._integer,
    TypeKind.FLOAT: BtfTypes._float,
    TypeKind.PTR: BtfTypes._pointer,
    TypeKind.ARRAY: BtfTypes._array,
    TypeKind.STRUCT: BtfTypes._record,
    TypeKind.UNION: BtfTypes._record,
    TypeKind.FWD: BtfTypes._forward,
    TypeKind.ENUM: BtfTypes._enumeration,
    TypeKind.ENUM64: BtfTypes._enumeration,
    TypeKind.TYPEDEF: BtfTypes._typedef,
    **dict.fromkeys((TypeKind.CONST, TypeKind.VOLATILE, TypeKind.RESTRICT, TypeKind.TYPE_TAG), BtfTypes._through),
}

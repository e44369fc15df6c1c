# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of D from the debug information of one image; each type is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from gilk.engines.dtrace.bit_fields import bit_field
from gilk.engines.dtrace.nesting import DEEPEST, LARGEST, Nesting
from gilk.errors import ImageError
from gilk.image.dwarf.entries import DebugEntry, DebugUnit, Entries
from gilk.image.dwarf.languages import AT_LANGUAGE, foreign
from gilk.image.dwarf.names import find, units_with
from gilk.image.encoding import uleb
from gilk.lang import types
from gilk.lang.types import Array, Enumeration, Float, Integer, Member, Pointer, Record, Type

AT_BYTE_SIZE, AT_ENCODING, AT_TYPE, AT_DECLARATION, AT_CONST_VALUE = 0x0B, 0x3E, 0x49, 0x3C, 0x1C
AT_LOCATION, AT_BIT_SIZE, AT_BIT_OFFSET, AT_DATA_BIT_OFFSET = 0x38, 0x0D, 0x0C, 0x6B
AT_UPPER_BOUND, AT_COUNT, AT_ALIGNMENT = 0x2F, 0x37, 0x88
AT_LINKAGE_NAME = 0x6E
TAG_VARIABLE, TAG_FUNCTION, TAG_PARAMETER, TAG_ENUMERATOR, TAG_SUBRANGE = 0x34, 0x2E, 0x05, 0x28, 0x21
TAG_MEMBER, TAG_INHERITANCE, TAG_TYPEDEF, TAG_BASE, TAG_ENUM = 0x0D, 0x1C, 0x16, 0x24, 0x04
KINDS = {0x13: "struct", 0x02: "struct", 0x17: "union"}
_TAGS = {
    "struct": frozenset((0x13, 0x02)),
    "union": frozenset((0x17,)),
    "enum": frozenset((TAG_ENUM,)),
    "typedef": frozenset((TAG_TYPEDEF,)),
}
_NAMED = frozenset((TAG_TYPEDEF, TAG_BASE, 0x13, 0x02, 0x17, TAG_ENUM))
_COMPLEX, _FLOAT, _SIGNED = 3, 4, (0x05, 0x06, 0x0D)
_SIZES = (1, 2, 4, 8)
_ENDLESS = (-1, (1 << 32) - 1, (1 << 64) - 1)  # the last index that compilers write for an array without an end
_PLUS_CONSTANT = 0x23


def type_entry(entry: DebugEntry) -> DebugEntry | None:
    """The entry of the type of an entry, or of those that it stands for; None for void. Raises ImageError."""
    return next((found for each in entry.chain() if (found := each.referred(AT_TYPE)) is not None), None)


class DebugTypes:
    """The types of one image. ``name``: the image's, which is a part of the origin of its structs."""

    def __init__(self, name: str, entries: Entries) -> None:
        self._name = name
        self._entries = entries
        self._nesting = Nesting[tuple[Entries, int]](self._malformed)

    def named(self, kind: str, name: str) -> Type | None:
        """The type of that name. ``kind``: struct, union, enum, typedef, or "" for any type with a name. Raises
        ImageError."""
        for entry in find(self._entries, name, _TAGS.get(kind, _NAMED)):
            if AT_DECLARATION not in entry.attributes:
                found = self._type(entry)
                return self.completed(found) if isinstance(found, Record) else found
        return None

    def variable(self, name: str) -> Type | None:
        """The type of a variable; if its definition has none, that of its declaration. Raises ImageError."""
        for entry in find(self._entries, name, frozenset((TAG_VARIABLE,))):
            found = entry.referred(AT_TYPE)
            if found is not None:
                return self._type(found)
        return None

    def of(self, entry: DebugEntry) -> Type:
        """The type of a variable's entry, or of a function's result. Raises ImageError."""
        return self._of(entry)

    def function(self, name: str) -> tuple[Type, tuple[Type, ...]] | None:
        """The return type and the parameters' types of a function; None if it is not there. Raises ImageError."""
        for entry in find(self._entries, name, frozenset((TAG_FUNCTION,))):
            if AT_DECLARATION not in entry.attributes:
                given = [each for each in self._entries_of(entry) if each.tag == TAG_PARAMETER]
                return self._of(entry), tuple(self._of(each) for each in given)
        return None

    def foreign(self, names: Iterable[str] = ()) -> str:
        """The language of a function, if it does not call as C does, else "". ``names``: all names of the function.

        It is the language of the function's own unit, or else that of all units in which a name occurs. Without names,
        it is the first foreign language of any unit.
        """
        with suppress(ImageError):
            for name in dict.fromkeys(names):
                for entry in find(self._entries, name, frozenset((TAG_FUNCTION,))):
                    if AT_DECLARATION not in entry.attributes:
                        return foreign(entry.file, entry.file.unit(entry.offset))
                found = [foreign(self._entries, unit) for unit in self._units_with(name)]
                if found:
                    return found[0] if all(found) else ""
            if not names:
                return next(filter(None, (foreign(self._entries, unit) for unit in self._entries.units)), "")
        return ""

    def _units_with(self, name: str) -> Iterator[DebugUnit]:
        """The units in which a name occurs. Units that only hold types, or parts shared by others, have no language and
        are left out."""
        units = units_with(self._entries, self._entries.sections, name.encode("utf-8", "surrogateescape"))
        return (unit for unit in units if AT_LANGUAGE in self._entries.entry(unit.first).attributes)

    def _entries_of(self, entry: DebugEntry) -> list[DebugEntry]:
        return list(entry.file.children(entry))

    # Types.

    def _of(self, entry: DebugEntry) -> Type:
        """The type that an entry refers to, or one of those that it stands for; void if it refers to none."""
        found = type_entry(entry)
        return types.VOID if found is None else self._type(found)

    def _type(self, entry: DebugEntry) -> Type:
        make = _MAKERS.get(entry.tag, DebugTypes._through)
        return self._nesting.of((entry.file, entry.offset), lambda: make(self, entry))

    def _malformed(self, what: str) -> ImageError:
        return ImageError("elf-malformed", f"{self._name}: {what}")

    def _size(self, entry: DebugEntry, usual: int = 0) -> int:
        """The size of a type in bytes. Raises ImageError if it is impossible."""
        size = entry.number(AT_BYTE_SIZE) or usual
        if not 0 <= size < LARGEST:
            raise self._malformed(f"a type of {size} bytes")
        return size

    def _through(self, entry: DebugEntry) -> Type:
        """The type behind qualifiers."""
        return self._of(entry)

    def _base(self, entry: DebugEntry) -> Type:
        size, encoding = self._size(entry), entry.number(AT_ENCODING)
        if encoding == _FLOAT and size:
            return Float(entry.name, size)
        if encoding == _COMPLEX and size:
            return Array(Float(entry.name.replace("complex", "").strip(), size // 2), 2)
        if size not in _SIZES:
            return Array(types.UINT64, size // 8)  # __int128
        known = types.basic(tuple(entry.name.split()))
        rank = known.rank if isinstance(known, Integer) else {1: 0, 2: 1, 4: 2, 8: 3}[size]
        return Integer(entry.name, size, encoding in _SIGNED, rank)

    def _pointer(self, entry: DebugEntry) -> Type:
        """A pointer. A struct that it leads to is only named, since that may lead back here."""
        to = entry.referred(AT_TYPE)
        for _ in range(DEEPEST):
            if to is not None and to.tag in _QUALIFIERS:
                to = to.referred(AT_TYPE)
        if to is not None and (named := self._typedef_of_record(to)) is not None:
            return Pointer(self._only_named(named))
        return Pointer(types.VOID if to is None else self._type(to))

    def _typedef_of_record(self, entry: DebugEntry) -> DebugEntry | None:
        for _ in range(DEEPEST):
            if entry.tag in KINDS:
                return entry
            inner = entry.referred(AT_TYPE) if entry.tag == TAG_TYPEDEF or entry.tag in _QUALIFIERS else None
            if inner is None:
                return None
            entry = inner
        return None

    def _only_named(self, entry: DebugEntry) -> Record:
        place = f"{self._name}:{'shared:' if entry.file is not self._entries else ''}{entry.offset:x}"
        return Record(KINDS[entry.tag], entry.name, place, complete=False)

    def _function(self, entry: DebugEntry) -> Type:
        return types.VOID  # a pointer to a function leads to void

    def _typedef(self, entry: DebugEntry) -> Type:
        found = self._of(entry)
        return replace(found, name=entry.name) if isinstance(found, Integer) else found

    def _array(self, entry: DebugEntry) -> Type:
        found = self._of(entry)
        ranges = [each for each in self._entries_of(entry) if each.tag == TAG_SUBRANGE]
        self._nesting.deeper(len(ranges), f"an array of {len(ranges)} dimensions")
        for each in reversed(ranges):
            found = Array(found, _count(each))
            if not 0 <= found.count * max(types.size_of(found.of, 1), 1) < LARGEST:
                raise self._malformed(f"an array of {found.count} elements")
        return found

    def _enumeration(self, entry: DebugEntry) -> Type:
        """The type of an enumeration; one that does not have the size of an int is a mere integer.

        Raises ImageError if no integer has its size.
        """
        size = self._size(entry, 4)
        if size not in _SIZES:
            raise self._malformed(f"enum {entry.name} has {size} bytes")
        rows = [(each.name, each.number(AT_CONST_VALUE)) for each in self._entries_of(entry)]
        names = tuple((name, value) for name, value in rows if value is not None)
        if size != 4:
            return Integer(f"enum {entry.name}", size, any(value < 0 for _, value in names), {1: 0, 2: 1}.get(size, 3))
        return Enumeration(entry.name, tuple((name, types.wrapped(value, types.INT)) for name, value in names))

    # Structs and unions.

    def _record(self, entry: DebugEntry) -> Record:
        if AT_DECLARATION in entry.attributes:
            return self._only_named(entry)
        size, members = self._size(entry), list[Member]()
        union = KINDS[entry.tag] == "union"
        for each in self._entries_of(entry):
            if each.tag in (TAG_MEMBER, TAG_INHERITANCE) and (union or _placed(each)):
                member = self._member(each, size)
                members += [member] if member is not None and _inside(member, size) else []
        align = max((types.align_of(member.type) for member in members), default=1)
        found = self._only_named(entry)
        return replace(found, size=size, align=align, members=tuple(members), complete=True)

    def _member(self, entry: DebugEntry, whole: int) -> Member | None:
        """The member; None for a bit-field that no integer holds, as one of a packed struct that spans nine bytes."""
        type_, offset = self._of(entry), _offset(entry)
        bits = entry.number(AT_BIT_SIZE)
        if bits is None or not bits:
            return Member(entry.name, type_, offset)
        if bits < 0 or not isinstance(type_, Integer | Enumeration):
            return None
        size = types.size_of(type_, 1)
        at, old = entry.number(AT_DATA_BIT_OFFSET), entry.number(AT_BIT_OFFSET)
        if at is None:  # DWARF 2 and 3 count from the high end of the storage unit
            unit = entry.number(AT_BYTE_SIZE) or size
            at = 8 * offset + (8 * unit - bits - old if old is not None else 0)
        return bit_field(entry.name, type_, at, bits, whole)

    def completed(self, record: Record) -> Record:
        """The record with its members, if its origin is in this image. Raises ImageError."""
        if record.complete:
            return record
        _, _, place = record.origin.partition(":")
        file = self._entries.shared if place.startswith("shared:") else self._entries
        if file is None:
            return record
        entry = file.entry(int(place.removeprefix("shared:"), 16))
        if AT_DECLARATION not in entry.attributes:
            return self._record(entry)
        elsewhere = find(self._entries, entry.name, frozenset((entry.tag,))) if entry.name else iter(())
        defined = (each for each in elsewhere if AT_DECLARATION not in each.attributes)
        return next((self._record(each) for each in defined), record)


def _count(entry: DebugEntry) -> int:
    """The number of elements; 0 if the array has no end."""
    number, last = entry.number(AT_COUNT), entry.number(AT_UPPER_BOUND)
    if number is not None:
        return number
    return 0 if last is None or last in _ENDLESS else last + 1


def _inside(member: Member, whole: int) -> bool:
    """Whether the member lies in the struct's ``whole`` bytes. If not, the file is wrong, and readers of the member
    would read beyond the struct."""
    return 0 <= member.offset <= whole - types.size_of(member.type, 1)


def _placed(entry: DebugEntry) -> bool:
    """Whether the member has a place in the struct; a static member of C++ has none."""
    return AT_LOCATION in entry.attributes or AT_DATA_BIT_OFFSET in entry.attributes


def _offset(entry: DebugEntry) -> int:
    match entry.attributes.get(AT_LOCATION):
        case int(offset):
            return offset
        case bytes(expression) if expression[:1] == bytes([_PLUS_CONSTANT]):
            with suppress(IndexError):
                return uleb(expression, 1)[0]
    return 0


_QUALIFIERS = frozenset((0x26, 0x35, 0x37, 0x47))
_MAKERS: dict[int, Callable[[DebugTypes, DebugEntry], Type]] = {
    TAG_BASE: DebugTypes._base,
    0x0F: DebugTypes._pointer,
    0x10: DebugTypes._pointer,
    0x42: DebugTypes._pointer,
    0x1F: lambda _, entry: types.ULONG,
    0x15: DebugTypes._function,
    TAG_TYPEDEF: DebugTypes._typedef,
    0x01: DebugTypes._array,
    TAG_ENUM: DebugTypes._enumeration,
    **dict.fromkeys(KINDS, DebugTypes._record),
}

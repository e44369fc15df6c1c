# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of print(): memory, member by member, according to its type. Zeros are left out, except in arrays."""

from __future__ import annotations

import struct
from dataclasses import field

from gilk.lang.types import Array, Enumeration, Float, Integer, Member, Pointer, Record, String, Type, size_of, text
from gilk.values import dataclass

_INDENT = 44  # the columns before the outermost line
_MOST_LINES = 1 << 16  # a type may claim more lines: members may be nested, two in each
_FLOATS = {4: "<f", 8: "<d"}


def printed(address: int, type_: Type, data: bytes, most: int, strsize: int) -> bytes:
    """The text for ``data``, the memory at ``address``. Members that begin more than ``most`` bytes behind it are only
    hinted at.
    """
    writer = _Writer(data, most, strsize)
    writer.line(f"0x{address:x} = *", -_INDENT)
    writer.value("", type_, 0, 0, "")
    return "".join(f"{line}\n" for line in writer.lines).encode("utf-8", "surrogateescape")


@dataclass
class _Writer:
    data: bytes
    most: int
    strsize: int
    lines: list[str] = field(default_factory=list)

    def line(self, content: str, depth: int) -> None:
        self.lines.append(" " * (_INDENT + depth) + content)

    def value(self, name: str, type_: Type, at: int, depth: int, end: str = ",") -> None:
        if len(self.lines) >= _MOST_LINES:
            return
        if isinstance(type_, Record):
            self.line(f"{name}({_named(type_)}) {{", depth)
            self._members(type_, at, depth + 1)
            self.line(f"}}{end}", depth)
        elif isinstance(type_, Array):
            self.line(f"{name}({_named(type_)}) [", depth)
            self._elements(type_, at, depth + 1)
            self.line(f"]{end}", depth)
        else:
            content = _scalar(type_, self._bytes(at, size_of(type_, self.strsize)))
            self.line(f"{name}({_named(type_)}){content}{end}", depth)

    def _bytes(self, at: int, size: int) -> bytes:
        return self.data[at : at + size].ljust(size, b"\0")

    def _members(self, record: Record, at: int, depth: int) -> None:
        for member in record.members:
            start = at + member.offset
            if start >= min(self.most, len(self.data)):
                self._more(depth)
                return
            name = f".{member.name} = " if member.name else ""
            if member.bits:
                self._bits(name, member, start, depth)
            elif any(self.data[start : start + size_of(member.type, self.strsize)]):
                self.value(name, member.type, start, depth)

    def _more(self, depth: int) -> None:
        """Hint at members that are left out; DTrace does so before it closes the structs that end there."""
        at = len(self.lines)
        while self.lines[at - 1].lstrip().startswith("}"):
            at -= 1
        self.lines.insert(at, " " * (_INDENT + depth) + "...")

    def _bits(self, name: str, member: Member, at: int, depth: int) -> None:
        size = size_of(member.type, self.strsize)
        value = int.from_bytes(self._bytes(at, size), "little") >> member.shift & (1 << member.bits) - 1
        if isinstance(member.type, Integer) and member.type.signed and value >> (member.bits - 1):
            value -= 1 << member.bits
        if value:
            wide = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
            self.line(f"{name}({_named(member.type)}){_scalar(member.type, wide)},", depth)

    def _elements(self, array: Array, at: int, depth: int) -> None:
        size = size_of(array.of, self.strsize)
        characters = isinstance(array.of, Integer) and size == 1 and "char" in array.of.name
        for number in range(array.count):
            start = at + number * size
            if characters and not any(self._bytes(start, 1)):
                return
            if start >= min(self.most, len(self.data)) or not size:
                self.line("...", depth)
                return
            self.value("", array.of, start, depth)


def _named(type_: Type) -> str:
    if isinstance(type_, Record):
        return type_.kind if type_.tag.startswith("(") or not type_.tag else f"{type_.kind} {type_.tag}"
    if isinstance(type_, Array):
        sizes = ""
        while isinstance(type_, Array):
            sizes, type_ = f"{sizes}[{type_.count}]", type_.of
        return f"{_named(type_)} {sizes}"
    if isinstance(type_, Pointer) and isinstance(type_.to, Record | Array):
        return f"{_named(type_.to)} *"
    return text(type_)


def _scalar(type_: Type, data: bytes) -> str:
    value = int.from_bytes(data, "little")
    match type_:
        case Pointer():
            return f"0x{value:x}"
        case Enumeration():
            value -= value >> 31 << 32
            return next((name for name, number in type_.names if number == value), str(value))
        case Integer() if type_.size == 1 and "char" in type_.name and 0x20 <= value < 0x7F:
            return f"'{chr(value)}'"
        case Integer():
            return str(value - (value >> (8 * type_.size - 1) << 8 * type_.size) if type_.signed else value)
        case Float() if type_.size in _FLOATS:
            return f"{struct.unpack(_FLOATS[type_.size], data)[0]:g}"
        case String():
            return '"' + data.partition(b"\0")[0].decode("utf-8", "surrogateescape") + '"'
    return f"0x{value:x}"

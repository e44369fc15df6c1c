# SPDX-License-Identifier: LGPL-2.1-or-later
"""C that declares types as a program's debug information has them, and has the compiler check sizes and offsets.

Types that the surrounding C has already are left out. A pointer to a function becomes a ``void *``; a type for which C
has no name becomes an array of bytes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from gilk.lang import types
from gilk.lang.types import Array, Enumeration, Float, Integer, Member, Pointer, Record, Type, Void
from gilk.values import dataclass

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset(
    (*("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
     *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
     *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"))
)  # fmt: skip
_NUMBERS = {1: "char", 2: "short", 4: "int", 8: "long"}
_FLOATS = {"float": 4, "double": 8, "long double": 16}
_MOST = 20_000  # records


@dataclass(frozen=True)
class NamedType:
    """A named type. ``kind``: struct, union, enum or typedef."""

    kind: str
    name: str
    type: Type


class TooManyTypes(Exception):
    """There are more types than can be written."""


class TypeDeclarations:
    """The named types, and all types that they lead to. ``complete``: finds the members of a struct that was only
    named.
    """

    def __init__(self, roots: Sequence[NamedType], complete: Callable[[Record], Record]) -> None:
        """Collect all types. Raises TooManyTypes."""
        self._roots, self._complete = roots, complete
        self._records: dict[str, Record] = {}  # by kind and tag; a record comes after those of its members
        self._enums: dict[str, Enumeration] = {}
        self._tags: dict[str, str] = {}  # names for those without a tag, by origin
        self._open: set[str] = set()
        self._rooms = itertools.count()  # numbers of unnamed members
        self._left = [one.type for one in roots]
        while self._left:
            self._take(self._left.pop(0))

    # The collection of types.

    def _take(self, type_: Type) -> None:
        match type_:
            case Pointer(to=to):
                self._left += [to] if not isinstance(to, Record) or self.name(to) not in self._records else []
            case Array(of=of):
                self._take(of)
            case Enumeration(tag=tag) if tag:
                self._enums.setdefault(tag, type_)
            case Record():
                self._take_record(type_)

    def _take_record(self, record: Record) -> None:
        """Add a record after the records of its members. A struct that is a member of itself, which only faulty debug
        information has, is skipped.
        """
        name = self.name(record)
        if name in self._records or name in self._open:
            return
        if len(self._records) > _MOST:
            raise TooManyTypes
        self._open.add(name)
        whole = self._complete(record)
        for member in whole.members:
            self._take(member.type)
        self._open.discard(name)
        if whole.complete:
            self._records[name] = whole

    def name(self, record: Record) -> str:
        """The name of a record, with ``struct`` or ``union`` in front."""
        if _is_name(record.tag):
            return f"{record.kind} {record.tag}"
        return f"{record.kind} {self._tags.setdefault(record.origin, f'gilk_unnamed_{len(self._tags)}')}"

    def names(self) -> tuple[str, ...]:
        """The names of all declared types and enumerators; types are written as ``sizeof`` takes them."""
        enums = (f"enum {tag}" for tag in self._enums)
        enumerators = (name for one in self._enums.values() for name, _ in one.names)
        typedefs = (one.name for one in self._roots if one.kind == "typedef")
        return tuple(dict.fromkeys((*self._records, *enums, *enumerators, *typedefs)))

    # The types as C.

    def text(self, known: Collection[str]) -> str:
        """The declarations, without those of names that are ``known`` already."""
        return "\n".join(self._lines(known)) + "\n"

    def _lines(self, known: Collection[str]) -> Iterator[str]:
        yield from (f"{name};" for name in self._records if name not in known)
        yield from (self._enum(one, known) for tag, one in self._enums.items() if f"enum {tag}" not in known)
        for name, record in self._records.items():
            if name not in known:
                yield f"{name} {self._body(record)};"
                yield from self._asserted(name, record)
        for one in self._roots:
            if one.kind == "typedef" and one.name not in known:
                yield f"typedef {self.declared(one.type, one.name)};"

    def _enum(self, one: Enumeration, known: Collection[str]) -> str:
        rows = [f"{name} = {value}" for name, value in one.names if name not in known and _is_name(name)]
        return f"enum {one.tag} {{ {', '.join(rows or [f'gilk_none_of_{one.tag}'])} }};"

    def declared(self, type_: Type, name: str) -> str:
        """A declaration of ``name`` as a variable, member or typedef of that type."""
        match type_:
            case Integer():
                return f"{_number(type_)} {name}"
            case Float() if _FLOATS.get(type_.name) == type_.size:
                return f"{type_.name} {name}"
            case Enumeration(tag=tag):
                return f"enum {tag} {name}" if tag else f"int {name}"
            case Pointer(to=to):
                return self.declared(to, f"(*{name})" if isinstance(to, Array) else f"*{name}")
            case Array(of=of, count=count):
                return self.declared(of, f"{name}[{count}]")
            case Record():
                return f"{self.name(type_)} {name}"
            case Void():
                return f"void {name}"
        return f"char {name}[{types.size_of(type_, 1)}]"

    def _body(self, record: Record) -> str:
        if self._is_natural(record):
            rows = "".join(f"{self._member(one)}; " for one in record.members)
            return f"{{ {rows}}}"
        aligned = f", aligned({_align(record)})" if _align(record) > 1 else ""
        fields = self._union(record) if record.kind == "union" else self._packed(record.members, record.size)
        return f"{{ {' '.join(fields)} }} __attribute__((packed{aligned}))"

    def _member(self, one: Member) -> str:
        if not one.name and isinstance(one.type, Record):
            whole = self._records.get(self.name(one.type))
            if whole is not None:  # its members are members of the outer struct
                return f"{one.type.kind} {self._body(whole)}"
        return self.declared(one.type, one.name)

    def _is_natural(self, record: Record) -> bool:
        """Whether a compiler gives the members the same layout."""
        at = 0
        for one in record.members:
            start = 0 if record.kind == "union" else -(-at // _align(one.type)) * _align(one.type)
            if one.bits or not self._can_be_said(one) or one.offset != start:
                return False
            end = start + types.size_of(one.type, 1)
            at = max(at, end)
        widest = max((_align(one.type) for one in record.members), default=1)
        return bool(record.members) and -(-at // widest) * widest == record.size

    def _can_be_said(self, one: Member) -> bool:
        inner = one.type
        while isinstance(inner, Array):
            inner = inner.of
        if isinstance(inner, Record) and self.name(inner) not in self._records:
            return False
        return _is_name(one.name) or (not one.name and isinstance(one.type, Record))

    def _packed(self, members: Sequence[Member], size: int) -> Iterator[str]:
        """Members at their bits, with unnamed room in between; a member that overlaps another is left out."""
        at = 0
        for one in sorted(members, key=lambda each: (8 * each.offset + each.shift, not each.bits)):
            start = 8 * one.offset + one.shift
            if start < at or not self._can_be_said(one):
                continue
            yield from self._room(at, start)
            yield f"{self._member(one)} : {one.bits};" if one.bits else f"{self._member(one)};"
            at = start + (one.bits or 8 * types.size_of(one.type, 1))
        yield from self._room(at, 8 * size)

    def _room(self, at: int, to: int) -> Iterator[str]:
        """Unnamed members for the bits from ``at`` to ``to``."""
        bits = min(-at % 8, to - at)
        if bits:
            yield f"unsigned char : {bits};"
        whole, rest = divmod(to - at - bits, 8)
        if whole:
            yield f"char gilk_room_{next(self._rooms)}[{whole}];"
        if rest:
            yield f"unsigned char : {rest};"

    def _union(self, record: Record) -> Iterator[str]:
        for one in record.members:
            yield f"struct {{ {' '.join(self._packed([one], record.size))} }} __attribute__((packed));"
        yield f"char gilk_room_{next(self._rooms)}[{record.size}];"

    def _asserted(self, name: str, record: Record) -> Iterator[str]:
        yield f'_Static_assert(sizeof({name}) == {record.size}, "{name} has {record.size} bytes");'
        for one in record.members if self._is_natural(record) else ():
            if one.name:
                where = f"__builtin_offsetof({name}, {one.name}) == {one.offset}"
                yield f'_Static_assert({where}, "{one.name} of {name} is at {one.offset}");'


def _number(type_: Integer) -> str:
    if type_.name in ("_Bool", "bool"):
        return "_Bool"
    if type_.size == 1 and type_.name == "char":
        return "char"
    return f"{'signed' if type_.signed else 'unsigned'} {_NUMBERS[type_.size]}"


def _align(type_: Type) -> int:
    """The alignment that a compiler gives to the type as it is declared here."""
    if isinstance(type_, Array):
        return _align(type_.of)
    if isinstance(type_, Record):
        return type_.align if type_.size % max(type_.align, 1) == 0 else 1
    return types.align_of(type_)


def _is_name(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None and text not in _KEYWORDS

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of the values that a probe computes: C's for x86-64 (LP64), strings, and values that are only recorded.

Types are values; two are the same type when they are equal.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer type. ``size`` is in bytes; ``rank`` is C's conversion rank, which places long before long long
    although both have one size.
    """

    name: str
    size: int
    signed: bool
    rank: int


@dataclass(frozen=True, slots=True)
class Float:
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Void:
    pass


@dataclass(frozen=True, slots=True)
class String:
    """The type of a string, which takes at most ``strsize`` bytes with its NUL."""


@dataclass(frozen=True, slots=True)
class Pointer:
    to: Type


@dataclass(frozen=True, slots=True)
class Array:
    of: Type
    count: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct or union, at ``offset`` bytes. ``bits`` is the width of a bit-field, 0 for other members;
    the bit-field begins ``shift`` bits above the lowest bit of the integer at ``offset``.
    """

    name: str
    type: Type
    offset: int
    bits: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or union. ``complete`` is False for a type that is named but not defined. Comparisons ignore its
    members.

    ``origin``: where the type is known from, if the program has not declared it. Types of one name and different
    origins differ.
    """

    kind: str
    tag: str
    origin: str = ""
    size: int = field(compare=False, default=0)
    align: int = field(compare=False, default=1)
    members: tuple[Member, ...] = field(compare=False, default=(), repr=False)
    complete: bool = field(compare=False, default=True)

    def member(self, name: str) -> Member | None:
        """The member called ``name``, or None. Members of unnamed members are found too, at the sum of the offsets."""
        return self._member(name, set())

    def _member(self, name: str, without: set[int]) -> Member | None:
        """Do the work of member(). ``without`` has the ids of the unnamed records that were searched; without it the
        search of nested unnamed records could take exponential time.
        """
        without.add(id(self))
        for one in self.members:
            if one.name == name:
                return one
            if not one.name and isinstance(one.type, Record) and id(one.type) not in without:
                inner = one.type._member(name, without)
                if inner is not None:
                    return Member(name, inner.type, one.offset + inner.offset, inner.bits, inner.shift)
        return None


@dataclass(frozen=True, slots=True)
class Enumeration:
    tag: str
    names: tuple[tuple[str, int], ...] = field(compare=False, default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Translated:
    """The result of a translator: a struct or union whose members are expressions, or a pointer to one. It has no place
    in memory.
    """

    record: Record
    pointer: bool


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The type of an aggregation and of an assignment to one; such an expression has no value."""


class Special(StrEnum):
    """A type whose values can only be traced, printed or used in keys."""

    USTACK = "ustack"
    STACK = "stack"
    USYM = "usym"
    UMOD = "umod"
    UADDR = "uaddr"
    SYM = "sym"
    MOD = "mod"


Type: TypeAlias = (
    "Integer | Float | Void | String | Pointer | Array | Record | Enumeration | Translated | Dynamic | Special"
)

CHAR = Integer("char", 1, True, 0)
SHORT = Integer("short", 2, True, 1)
INT = Integer("int", 4, True, 2)
UINT = Integer("unsigned int", 4, False, 2)
LONG = Integer("long", 8, True, 3)
ULONG = Integer("unsigned long", 8, False, 3)
LONG_LONG = Integer("long long", 8, True, 4)
ULONG_LONG = Integer("unsigned long long", 8, False, 4)
INT64, UINT64 = LONG, ULONG
VOID = Void()
STRING = String()
DYNAMIC = Dynamic()

#: Types by their words, sorted; basic() sorts the words of a declaration, which may come in any order.
_BASIC: dict[tuple[str, ...], Integer | Float | Void | String] = {
    ("char",): CHAR,
    ("char", "signed"): Integer("signed char", 1, True, 0),
    ("char", "unsigned"): Integer("unsigned char", 1, False, 0),
    ("short",): SHORT,
    ("short", "unsigned"): Integer("unsigned short", 2, False, 1),
    ("int",): INT,
    ("unsigned",): UINT,
    ("long",): LONG,
    ("long", "unsigned"): ULONG,
    ("long", "long"): LONG_LONG,
    ("long", "long", "unsigned"): ULONG_LONG,
    ("float",): Float("float", 4),
    ("double",): Float("double", 8),
    ("double", "long"): Float("long double", 16),
    ("void",): VOID,
    ("string",): STRING,
}
_LIKE_LONG = "intptr_t ptrdiff_t ssize_t off_t time_t clock_t longlong_t hrtime_t"
_LIKE_ULONG = "uintptr_t size_t ino_t dev_t nlink_t ulong_t ulong u_longlong_t caddr_t"
_LIKE_INT = "pid_t id_t key_t processorid_t zoneid_t clockid_t taskid_t projid_t lgrp_id_t boolean_t"
_LIKE_UINT = "uid_t gid_t mode_t uint_t uint u_int major_t minor_t ipaddr_t"


def basic(words: tuple[str, ...]) -> Integer | Float | Void | String | None:
    """The type that C's words stand for, in any order and with redundant words; None if they are no type."""
    left = sorted(word for word in words if word not in ("const", "volatile", "restrict"))
    if left.count("int") == 1 and len(left) > 1:
        left.remove("int")
    if "signed" in left and "char" not in left:
        left.remove("signed")
        left = left or ["int"]
    return _BASIC.get(tuple(left))


def _aliases() -> dict[str, Type]:
    found: dict[str, Type] = {}
    for bits in (8, 16, 32, 64):
        size, rank = bits // 8, {8: 0, 16: 1, 32: 2, 64: 3}[bits]
        for prefix, signed in (("int", True), ("uint", False)):
            found[f"{prefix}{bits}_t"] = Integer(f"{prefix}{bits}_t", size, signed, rank)
            linux = f"__{'s' if signed else 'u'}{bits}"
            found[linux] = Integer(linux, size, signed, rank)
    for words, type_ in ((_LIKE_LONG, LONG), (_LIKE_ULONG, ULONG), (_LIKE_INT, INT), (_LIKE_UINT, UINT)):
        found.update((word, Integer(word, type_.size, type_.signed, type_.rank)) for word in words.split())
    for word, like in (("uchar_t", "unsigned char"), ("ushort_t", "unsigned short")):
        found[word] = Integer(word, 1 if "char" in like else 2, False, 0 if "char" in like else 1)
    found["bool"] = Integer("bool", 1, False, 0)
    found["caddr_t"] = Pointer(CHAR)
    return found


#: Types whose names are known without a declaration.
ALIASES = _aliases()


def size_of(type_: Type, strsize: int) -> int:
    """The size of a type in bytes; 0 for a type without a size."""
    match type_:
        case Integer() | Float() | Record():
            return type_.size
        case Enumeration():
            return 4
        case Pointer():
            return 8
        case Array():
            return type_.count * size_of(type_.of, strsize)
        case String():
            return strsize
    return 0


def align_of(type_: Type) -> int:
    match type_:
        case Integer() | Float():
            return type_.size
        case Record():
            return type_.align
        case Array():
            return align_of(type_.of)
        case Enumeration():
            return 4
        case String() | Void():
            return 1
    return 8


def is_arithmetic(type_: Type) -> bool:
    return isinstance(type_, Integer | Enumeration)


def is_scalar(type_: Type) -> bool:
    return isinstance(type_, Integer | Enumeration | Pointer)


def promoted(type_: Type) -> Integer:
    """The type that ``type_`` has after C's integer promotions."""
    if isinstance(type_, Integer) and type_.rank > INT.rank:
        return type_
    if isinstance(type_, Integer) and type_.size == 4 and not type_.signed:
        return UINT
    return INT


def wide(type_: Type) -> Integer:
    """The 64-bit type in which values of ``type_`` are computed."""
    signed_ = not isinstance(type_, Integer) or type_.signed
    if isinstance(type_, Integer) and type_.size == LONG.size:
        return type_
    return INT64 if signed_ else UINT64


def ranked(left: Type, right: Type) -> Integer:
    """The type of an operator's result in D: that of the operand with the higher rank, without promotion."""
    a, b = (each if isinstance(each, Integer) else INT for each in (left, right))
    return a if (a.size, not a.signed, a.rank) >= (b.size, not b.signed, b.rank) else b


def common(left: Type, right: Type) -> Integer:
    """The common type of two integer types by C's usual arithmetic conversions."""
    a, b = promoted(left), promoted(right)
    if a.size != b.size:
        return a if a.size > b.size else b
    if a.rank == b.rank:
        return a if not a.signed else b
    high, low = (a, b) if a.rank > b.rank else (b, a)
    if high.signed and not low.signed:
        return Integer(f"unsigned {high.name}", high.size, False, high.rank)
    return high


def wrapped(value: int, type_: Integer) -> int:
    """``value`` wrapped to the range of ``type_``."""
    return signed(value, type_.size) if type_.signed else value & (1 << 8 * type_.size) - 1


def signed(value: int, size: int = 8) -> int:
    """The low ``size`` bytes of ``value`` as a signed integer."""
    value &= (1 << 8 * size) - 1
    return value - (value >> (8 * size - 1) << 8 * size)


def text(type_: Type) -> str:
    """The name of a type in messages."""
    match type_:
        case Integer() | Float():
            return type_.name
        case Void():
            return "void"
        case String():
            return "string"
        case Pointer():
            return f"{text(type_.to)} *" if not isinstance(type_.to, Pointer) else f"{text(type_.to)}*"
        case Array():
            return f"{text(type_.of)} [{type_.count}]"
        case Record():
            return f"{type_.kind} {'' if type_.tag.startswith('(anon') else type_.tag}"
        case Enumeration():
            return f"enum {type_.tag or '(anon)'}"
        case Translated():
            return text(Pointer(type_.record) if type_.pointer else type_.record)
        case Dynamic():
            return "<DYN>"
    return str(type_)

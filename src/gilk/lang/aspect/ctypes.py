# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of C as values of lang/types.py, and their sizes as far as they are known without the program."""

from __future__ import annotations

import re

from gilk.lang.aspect.checked import CheckedType
from gilk.lang.d import ast
from gilk.lang.d.unparse import type_name
from gilk.lang.types import (
    ALIASES,
    VOID,
    Array,
    Enumeration,
    Float,
    Integer,
    Pointer,
    Record,
    Type,
    Void,
    basic,
    size_of,
)

_QUALIFIERS = ("const", "volatile", "restrict")
_MORE: dict[str, Type] = {
    "loff_t": Integer("loff_t", 8, True, 3), "off64_t": Integer("off64_t", 8, True, 3),
    "umode_t": Integer("umode_t", 2, False, 1), "socklen_t": Integer("socklen_t", 4, False, 2),
    "in_addr_t": Integer("in_addr_t", 4, False, 2), "in_port_t": Integer("in_port_t", 2, False, 1),
    "sector_t": Integer("sector_t", 8, False, 3), "gfp_t": Integer("gfp_t", 4, False, 2),
    "wchar_t": Integer("wchar_t", 4, True, 2), "pthread_t": Integer("pthread_t", 8, False, 3),
    "u8": Integer("u8", 1, False, 0), "u16": Integer("u16", 2, False, 1), "u32": Integer("u32", 4, False, 2),
    "u64": Integer("u64", 8, False, 3), "s8": Integer("s8", 1, True, 0), "s16": Integer("s16", 2, True, 1),
    "s32": Integer("s32", 4, True, 2), "s64": Integer("s64", 8, True, 3),
    "intmax_t": Integer("intmax_t", 8, True, 3), "uintmax_t": Integer("uintmax_t", 8, False, 3),
    "sigset_t": Record("type", "sigset_t", "", 128, 8),
}  # fmt: skip
_RECORDS = {
    "in_addr": (4, 4), "in6_addr": (16, 4), "sockaddr": (16, 2), "sockaddr_in": (16, 4), "sockaddr_in6": (28, 4),
    "timespec": (16, 8), "timeval": (16, 8), "iovec": (16, 8), "stat": (144, 8),
}  # fmt: skip
#: Sizes in bytes of the types that have another size in the kernel; None for types that the kernel does not have.
_IN_KERNEL: dict[str, int | None] = {
    "dev_t": 4, "nlink_t": 4, "wchar_t": 2, "sigset_t": 8, "double": None, "float": None, "struct timeval": None,
    "pthread_t": None, "intmax_t": None, "uintmax_t": None, "socklen_t": None, "in_addr_t": None, "in_port_t": None,
    "FILE": None, "DIR": None, "jmp_buf": None, "sigjmp_buf": None,
}  # fmt: skip
_BOOL = re.compile(r"\bbool\b")  # ``bool`` is a name in C only if a header defines it
_WIDE = ("__m256", "__m256d", "__m256i", "__m512", "__m512d", "__m512i", "_Float128", "__float128")


def checked_type(written: ast.TypeName, kernel: bool = False) -> CheckedType:
    """A type as a declaration in a process or in the kernel means it; ``size`` is None if only the program's own types
    can tell it.
    """
    type_ = resolved(written)
    size = size_in_bytes(type_)
    if kernel and size is not None:
        base, times = _innermost(written, type_)
        if base in _IN_KERNEL:
            size = (_IN_KERNEL[base] or 0) * times or None
    return CheckedType(_BOOL.sub("_Bool", type_name(written)), type_, size)


def in_kernel(written: CheckedType) -> int | None:
    """The size in the kernel of a type of a process; None if the kernel has no such type or the size is not known."""
    base = _without_qualifiers(written.text).partition("[")[0].strip()
    inside = _IN_KERNEL.get(base, written.size)
    if inside is None or written.size is None or base not in _IN_KERNEL:
        return inside
    return inside * (written.size // (size_in_bytes(resolved_name(base)) or 1))


def as_parameter(written: ast.TypeName) -> ast.TypeName:
    """The type of a parameter: an array or function becomes a pointer."""
    shape = written.declarator.shape
    if not shape or isinstance(shape[0], ast.Pointer):
        return written
    rest = shape[1:] if isinstance(shape[0], ast.ArrayOf) else shape
    pointed = ast.Declarator(written.declarator.span, None, (ast.Pointer(written.span), *rest))
    return ast.TypeName(written.span, written.base, pointed)


def resolved(written: ast.TypeName) -> Type:
    """The type that ``written`` means; types that are only named are incomplete records."""
    found = _base(written.base)
    for shape in reversed(written.declarator.shape):
        match shape:
            case ast.Pointer() | ast.ArrayOf(size=None):
                found = Pointer(found)
            case ast.ArrayOf(size=ast.Number(value=count)):
                found = Array(found, count)
            case ast.FunctionOf():
                found = Record("function", "", complete=False)
            case _:
                found = Record("array", type_name(written), complete=False)
    return found


def resolved_name(name: str) -> Type:
    if name.startswith(("struct ", "union ")):
        kind, _, tag = name.partition(" ")
        return _record(kind, tag.strip())
    return _named((name,))


def is_incomplete(type_: Type | None) -> bool:
    """Whether nothing but the name of the type is known."""
    return isinstance(type_, Record) and not type_.complete


def is_void(type_: Type | None) -> bool:
    return isinstance(type_, Void)


def unusual(written: ast.TypeName) -> str:
    """The reason why advice cannot see a value of that type where it is passed; "" if it can."""
    if any(isinstance(one, ast.Pointer | ast.ArrayOf | ast.FunctionOf) for one in written.declarator.shape):
        return ""
    words = written.base.words if isinstance(written.base, ast.BasicType) else ()
    if "_Complex" in words:
        return "complex numbers"
    if sorted(set(words) - set(_QUALIFIERS)) == ["double", "long"]:
        return "numbers of the x87 (long double)"
    if any(word in _WIDE for word in words):
        return "wide vectors"
    return ""


def is_float(type_: Type | None) -> bool:
    return isinstance(type_, Float)


def alike(one: CheckedType, other: CheckedType) -> bool:
    """Whether values of the two types can be equal; an unknown type can equal any."""
    if one.type is None or other.type is None or is_incomplete(one.type) or is_incomplete(other.type):
        return True
    return _kind(one.type) == _kind(other.type) and (one.size == other.size or None in (one.size, other.size))


def _kind(type_: Type) -> str:
    match type_:
        case Integer() | Enumeration():
            return "integer"
        case Record(kind=kind, tag=tag):
            return f"{kind} {tag}"
    return type(type_).__name__


def _base(base: ast.BaseType) -> Type:
    if isinstance(base, ast.BasicType):
        return _named(base.words)
    if base.kind == "enum":
        return Enumeration(base.tag or "")
    return _record(base.kind, base.tag or "")


def _named(words: tuple[str, ...]) -> Type:
    plain = tuple(word for word in words if word not in _QUALIFIERS)
    if len(plain) == 1 and plain[0] in _MORE:
        return _MORE[plain[0]]
    if len(plain) == 1 and plain[0] in ALIASES:
        return ALIASES[plain[0]]
    return basic(plain) or Record("type", " ".join(plain), complete=False)


def _record(kind: str, tag: str) -> Type:
    size, align = _RECORDS.get(tag, (0, 1)) if kind == "struct" else (0, 1)
    return Record(kind, tag, "", size, align, (), bool(size))


def size_in_bytes(type_: Type) -> int | None:
    """The size of a type; None if it has none, or if only the program's own types can tell it."""
    inner = type_
    while isinstance(inner, Array):
        inner = inner.of
    return None if is_incomplete(inner) or type_ == VOID else size_of(type_, 0)


def _innermost(written: ast.TypeName, type_: Type) -> tuple[str, int]:
    """The name of the innermost type of an array, and the number of its elements; "" for pointers."""
    times = 1
    while isinstance(type_, Array):
        times, type_ = times * type_.count, type_.of
    if isinstance(type_, Pointer):
        return "", 1
    nameless = ast.TypeName(written.span, written.base, ast.Declarator(written.span, None))
    return _without_qualifiers(type_name(nameless)), times


def _without_qualifiers(text: str) -> str:
    return " ".join(word for word in text.split() if word not in _QUALIFIERS)

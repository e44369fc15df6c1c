# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pieces of C: types, constants, string literals, and fresh names."""

from __future__ import annotations

from gilk.lang.c.literals import literal
from gilk.lang.types import Array, Enumeration, Integer, Pointer, Record, String, Type, wrapped

_UNSIGNED = {1: "gd_u8", 2: "gd_u16", 4: "gd_u32", 8: "gd_u64"}
_SIGNED = {1: "gd_s8", 2: "gd_s16", 4: "gd_s32", 8: "gd_s64"}


def c_type(type_: Type) -> str:
    """The C type for values of that type. Addresses are numbers; a string is a pointer to its characters."""
    match type_:
        case Integer():
            return (_SIGNED if type_.signed else _UNSIGNED)[type_.size]
        case Enumeration():
            return "gd_s32"
        case Pointer() | Array() | Record():
            return "gd_u64"
        case String():
            return "const char *"
    raise AssertionError(f"a value of type {type_} is kept nowhere")


def constant(type_: Type, value: int) -> str:
    if isinstance(type_, Integer) and type_.signed and type_.size == 8:
        return f"((gd_s64){wrapped(value, type_) & (1 << 64) - 1:#x}UL)"
    if isinstance(type_, Integer) and type_.size < 8:
        return f"(({c_type(type_)}){value})"
    return f"(({c_type(type_)}){value & (1 << 64) - 1:#x}UL)"


def string(value: str, most: int | None = None) -> str:
    """A literal with the UTF-8 bytes of ``value``, at most ``most`` of them."""
    return literal(value.encode("utf-8", "surrogateescape").split(b"\0")[0][:most])


class FreshNames:
    """A generator of names with numbers, so that no name hides another."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, prefix: str = "v") -> str:
        self._next += 1
        return f"{prefix}{self._next}"

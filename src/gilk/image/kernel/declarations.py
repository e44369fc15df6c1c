# SPDX-License-Identifier: LGPL-2.1-or-later
"""The declarations in BTF: prototypes of functions as in C, and the places of members in structs."""

from __future__ import annotations

from typing import Final

from gilk.errors import ImageError
from gilk.image.kernel.btf import Btf, Type, TypeKind
from gilk.values import dataclass

_QUALIFIERS: Final = {TypeKind.CONST: "const", TypeKind.VOLATILE: "volatile", TypeKind.RESTRICT: "restrict"}
_TAGGED: Final = {TypeKind.STRUCT: "struct", TypeKind.UNION: "union", TypeKind.ENUM: "enum", TypeKind.ENUM64: "enum"}
_POINTER: Final = 8  # in bytes
_MOST_DEEP: Final = 64


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str  # as in C: "struct sock *"


@dataclass(frozen=True, slots=True)
class Prototype:
    """The prototype of a function. The first six parameters of up to 8 bytes are in registers at its entry, and only
    there.
    """

    name: str
    result: str
    parameters: tuple[Parameter, ...]
    variadic: bool
    text: str  # "int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)"


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """The place of a member. ``offset`` from the struct's start and ``size`` are in bytes; for a bit field, ``shift``
    and ``bits`` are within the bytes at ``offset``."""

    offset: int
    size: int
    type: str
    shift: int = 0
    bits: int = 0


def prototype(btf: Btf, function: str) -> Prototype | None:
    """The prototype of a function; None if BTF does not have it: assembly, and clones such as ``name.isra.0``. Raises
    ImageError.
    """
    found = btf.find(function, TypeKind.FUNC)
    if found is None:
        return None
    proto = btf.type(found.size)
    words = btf.words(proto, 0, 2 * proto.count)
    pairs = list(zip((btf.string(name) for name in words[::2]), words[1::2], strict=True))
    variadic = bool(pairs) and pairs[-1] == ("", 0)
    parameters = tuple(Parameter(name, declare(btf, kind)) for name, kind in pairs[: len(pairs) - variadic])
    text = declare(btf, proto.size, f"{function}({_parameters(btf, proto)})")
    return Prototype(function, declare(btf, proto.size), parameters, variadic, text)


def place(btf: Btf, struct: str, path: str) -> MemberPlace | None:
    """The place of the member ``path`` (``a.b.c``) in ``struct``; None if there is no such struct or member.

    Members of unnamed structs and unions are found as in C. Raises ImageError.
    """
    found = btf.find(struct, TypeKind.STRUCT, TypeKind.UNION, TypeKind.TYPEDEF)
    if found is None:
        return None
    offset, at = 0, MemberPlace(0, 0, "")
    for name in path.split("."):
        member = _member(btf, btf.bare(found.number), name, 0)
        if member is None:
            return None
        number, at = member
        offset += at.offset
        found = btf.type(number)
    return MemberPlace(offset, at.size, at.type, at.shift, at.bits)


def _member(btf: Btf, struct: Type, name: str, depth: int) -> tuple[int, MemberPlace] | None:
    """The number of a member's type, and its place in ``struct``; None if there is no such member."""
    if struct.kind not in (TypeKind.STRUCT, TypeKind.UNION) or depth > _MOST_DEEP:
        return None
    for member in btf.members(struct):
        if member.name == name:
            size = size_of(btf, member.type)
            within = member.offset % (8 * size) if member.bits and size else member.offset % 8
            return member.type, MemberPlace(
                (member.offset - within) // 8, size, declare(btf, member.type), within, member.bits
            )
        if not member.name:
            inner = _member(btf, btf.bare(member.type), name, depth + 1)
            if inner is not None:
                number, at = inner
                return number, MemberPlace(member.offset // 8 + at.offset, at.size, at.type, at.shift, at.bits)
    return None


def size_of(btf: Btf, number: int, depth: int = 0) -> int:
    """The size of a type in bytes; 0 for a type without a size. Raises ImageError `btf-malformed`."""
    found = btf.bare(number)
    if found.kind is TypeKind.PTR:
        return _POINTER
    if found.kind is TypeKind.ARRAY:
        element, _, count = btf.words(found, 0, 3)
        if depth > _MOST_DEEP:
            raise ImageError("btf-malformed", "the kernel's BTF has an array that contains itself")
        return count * size_of(btf, element, depth + 1)
    sized = (TypeKind.INT, TypeKind.STRUCT, TypeKind.UNION, TypeKind.ENUM, TypeKind.ENUM64, TypeKind.FLOAT)
    return found.size if found.kind in sized else 0


def declare(btf: Btf, number: int, what: str = "", depth: int = 0) -> str:
    """The declaration in C of ``what`` with a type. Raises ImageError `btf-malformed` if a type contains itself."""
    if depth > _MOST_DEEP:
        raise ImageError("btf-malformed", f"the kernel's BTF has a type {number} that contains itself")
    found = btf.type(number)
    if found.kind is TypeKind.PTR:
        target = btf.type(found.size)
        inner = f"(*{what})" if target.kind in (TypeKind.ARRAY, TypeKind.FUNC_PROTO) else f"*{what}"
        return declare(btf, found.size, inner, depth + 1)
    if found.kind is TypeKind.ARRAY:
        element, _, count = btf.words(found, 0, 3)
        return declare(btf, element, f"{what}[{count or ''}]", depth + 1)
    if found.kind is TypeKind.FUNC_PROTO:
        return declare(btf, found.size, f"{what}({_parameters(btf, found, depth + 1)})", depth + 1)
    if found.kind in _QUALIFIERS:
        return _qualified(btf, found, what, depth)
    if found.kind is TypeKind.TYPE_TAG:
        return declare(btf, found.size, what, depth + 1)
    return _joined(_name(found), what)


def _qualified(btf: Btf, found: Type, what: str, depth: int) -> str:
    word = _QUALIFIERS[TypeKind(found.kind)]
    if btf.type(found.size).kind is TypeKind.PTR:  # char *const p
        return declare(btf, found.size, _joined(word, what), depth + 1)
    return f"{word} {declare(btf, found.size, what, depth + 1)}"


def _parameters(btf: Btf, proto: Type, depth: int = 0) -> str:
    words = btf.words(proto, 0, 2 * proto.count)
    pairs = list(zip(words[::2], words[1::2], strict=True))
    texts = [declare(btf, kind, btf.string(name), depth + 1) for name, kind in pairs]
    if pairs and pairs[-1] == (0, 0):
        texts[-1] = "..."
    return ", ".join(texts) or "void"


def _name(found: Type) -> str:
    tag = "union" if found.kind is TypeKind.FWD and found.flag else _TAGGED.get(found.kind, "")
    if found.kind is TypeKind.FWD and not tag:
        tag = "struct"
    return f"{tag} {found.name or '{...}'}" if tag else found.name or "?"


def _joined(left: str, right: str) -> str:
    return f"{left} {right}" if right else left

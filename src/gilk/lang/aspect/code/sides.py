# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instances that processes and the kernel share: their records have the same layout on both sides, each of which has
its own compiler and headers. A name that the other side binds is declared by the numbers and bytes of which it
consists, and the compiler of each side checks where every name lies.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.aspect.checked import CheckedElement, CheckedType
from gilk.lang.aspect.code.meeting import NumberedAspect, first_binders, uncertain
from gilk.lang.types import Array, Enumeration, Integer, Pointer, Record, Type

_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long"}


def is_on_both(aspect: NumberedAspect) -> bool:
    """Whether the aspect has elements both in processes and in the kernel."""
    return any(one.kernel for one in aspect.elements) and any(one.processes for one in aspect.elements)


def is_own(element: CheckedElement, kernel: bool | None) -> bool:
    """Whether the element is on this side; None stands for both sides."""
    return kernel is None or element.is_on(kernel)


def declared_there(type_: CheckedType, name: str) -> str | None:
    """The declaration of a name for the side that does not bind it; None if its layout is not known."""
    if type_.type is None or type_.size is None or _alignment(type_.type) is None:
        return None
    base, counts = _element(type_.type)
    return f"{_plain(base)} {name}{counts}"


def _element(type_: Type) -> tuple[Type, str]:
    """The innermost type of an array, and its numbers of elements as C writes them."""
    if not isinstance(type_, Array):
        return type_, ""
    inner, counts = _element(type_.of)
    return inner, f"[{type_.count}]{counts}"


def _plain(type_: Type) -> str:
    match type_:
        case Integer(name="char"):
            return "char"
        case Integer(size=size, signed=signed):
            return f"{'signed' if signed else 'unsigned'} {_INTEGERS[size]}"
        case Enumeration():
            return "signed int"
        case Record(kind=kind, tag=tag):
            return f"{kind} {tag}" if kind in ("struct", "union") else tag
    return "void *"


def _alignment(type_: Type | None) -> int | None:
    """The alignment in bytes, if both sides agree on it; otherwise None."""
    match type_:
        case Array(of=inner):
            return _alignment(inner)
        case Integer(size=size) if size in _INTEGERS:
            return size
        case Enumeration():
            return 4
        case Pointer():
            return 8
        case Record(align=align, complete=True):
            return align
    return None


def layout_checks(aspect: NumberedAspect) -> Iterator[str]:
    """C assertions about the offsets of the words and names that instances keep."""
    if not is_on_both(aspect):
        return
    n = aspect.number
    words = {one.name: one.type for one in aspect.checked.words}
    kept = {name: step.type for name, (_, _, step) in first_binders(aspect).items() if name not in words}
    yield from _checked(f"gilk_words_{n}", words, 0)
    yield from _checked(f"gilk_kept_{n}", kept, 8 if uncertain(aspect) else 0)


def _checked(struct: str, fields: dict[str, CheckedType], at: int) -> Iterator[str]:
    for name, type_ in fields.items():
        align, size = _alignment(type_.type) or 1, type_.size or 0
        at = -(-at // align) * align
        member = f"((struct {struct} *)0)->{name}"
        yield (f'_Static_assert(__builtin_offsetof(struct {struct}, {name}) == {at} && sizeof({member}) == {size}, '
               f'"{name} is not alike in processes and in the kernel");')  # fmt: skip
        at += size

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keys of aggregations and associative arrays: which types they can have, and whether they have the same types at
each use.
"""

from __future__ import annotations

from collections.abc import Sequence

from gilk.lang.d.meaning import operands
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import Dynamic, Record, Special, String, Translated, Type, Void, is_scalar, text


def check(span: Span, kind: str, keys: Sequence[Type]) -> None:
    """Raises Rejected unless the types can be keys. ``kind``: the kind of variable that has the keys."""
    for number, key in enumerate(keys, 1):
        if isinstance(key, Void | Dynamic | Translated):
            name = "void" if isinstance(key, Void) else "<DYN>"
            what = f"{name} expression may not be used as {kind} index: key #{number}"
            raise Rejected(Tag.D_KEY_TYPE, span, what)


def check_alike(span: Span, name: str, known: Sequence[Type], keys: Sequence[Type]) -> None:
    """Raises Rejected unless ``keys`` fit the types ``known`` with which ``name`` was used before."""
    if len(keys) != len(known):
        plural = "" if len(keys) == 1 else "s"
        what = f"{name}[ ] prototype mismatch: {len(keys)} key{plural} passed, {len(known)} expected"
        raise Rejected(Tag.D_PROTO_LEN, span, what)
    for number, (wanted, key) in enumerate(zip(known, keys, strict=True), 1):
        if not _is_alike(wanted, key):
            raise mismatch(span, name, number, wanted, key)


def mismatch(span: Span, name: str, number: int, wanted: Type, key: Type) -> Rejected:
    both = f"\tprototype: {text(wanted)}\n\t      key: {text(key)}"
    return Rejected(Tag.D_PROTO_ARG, span, f"{name}[ ] key #{number} is incompatible with prototype:\n{both}")


def _is_alike(wanted: Type, key: Type) -> bool:
    if is_scalar(wanted):
        return is_scalar(key)
    if isinstance(wanted, Special | Record):
        return wanted == key
    return not isinstance(key, Special | Record) and _is_text(wanted) == _is_text(key)


def _is_text(type_: Type) -> bool:
    return isinstance(type_, String) or operands.is_characters(type_)

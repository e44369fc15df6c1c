# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types among those of several images: by name, and records that only another image defines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from gilk.errors import ImageError
from gilk.lang.types import Record, Type


class HasTypes(Protocol):
    """The types of an image."""

    def named(self, kind: str, name: str) -> Type | None:
        """The type of that name; None if there is none. ``kind``: struct, union, enum, or "" for others. Raises
        ImageError."""
        ...


def types_named(images: Iterable[HasTypes | None], kind: str, name: str) -> Iterator[Type]:
    """The types of that name, in the order of the images; those that cannot be read, or have no types, are skipped."""
    for image in images:
        try:
            found = image.named(kind, name) if image is not None else None
        except ImageError:
            continue
        if found is not None:
            yield found


def completed(
    record: Record, at_home: Callable[[Record], Record], anywhere: Callable[[str, str, str], Type | None]
) -> Record:
    """The record with its members, if they are known.

    ``at_home`` completes it by the image that it comes from; if that only declares it, ``anywhere`` finds the type of
    that name, by module, kind and name.
    """
    try:
        found = at_home(record)
    except ImageError:
        return record
    if found.complete or not record.tag:
        return found
    other = anywhere("", record.kind, record.tag)
    return other if isinstance(other, Record) else record

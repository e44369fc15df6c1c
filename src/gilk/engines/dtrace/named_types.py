# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types by name among those of several images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from gilk.errors import ImageError
from gilk.lang.types import Type


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

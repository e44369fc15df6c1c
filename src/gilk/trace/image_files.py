# SPDX-License-Identifier: LGPL-2.1-or-later
"""The files that the code of a run was in, by which its source lines can be looked up later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gilk.errors import StoreError
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image by the name that the rows of its probes have. ``content``: its digest (Image.content), in hexadecimal:
    another file may lie at ``path`` by now.
    """

    name: str
    path: Path
    content: str


def to_json(files: Iterable[ImageFile]) -> list[list[str]]:
    return [[each.name, str(each.path), each.content] for each in files]


def from_json(rows: Any) -> tuple[ImageFile, ...]:
    """The files that to_json() gave. Raises StoreError `bad-trace` for anything else."""
    try:
        assert all(isinstance(each, str) for row in rows for each in row)
        return tuple(ImageFile(name, Path(path), content) for name, path, content in rows)
    except (TypeError, ValueError, AssertionError) as error:
        raise StoreError("bad-trace", f"its list of images is not valid: {error}") from error

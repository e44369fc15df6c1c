# SPDX-License-Identifier: LGPL-2.1-or-later
"""The debug information of an image, which is read once: its types, and the variables of its functions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from gilk.engines.dtrace.debug_types import DebugTypes
from gilk.errors import ImageError
from gilk.image.dwarf import sections
from gilk.image.dwarf.entries import Entries
from gilk.image.dwarf.sections import Sections
from gilk.image.dwarf.variables import Variables
from gilk.targets import lines


class ImageDebug:
    """The types and the variables of one image. ``path``: the image's, which is a part of the origin of its structs."""

    def __init__(self, path: Path, found: Sections) -> None:
        entries = Entries(found)
        self.types = DebugTypes(str(path).replace(":", "_"), entries)
        self.variables = Variables(entries)


#: Debug information that is still in use, by the path of the image and the state of its file.
_USED: Final[WeakValueDictionary[tuple[Path, tuple[int, ...]], ImageDebug]] = WeakValueDictionary()


def image_debug(path: Path) -> ImageDebug | None:
    """The debug information of an image; None if it has none, or is no image."""
    return _read(path, lines.state(path))


@lru_cache(maxsize=4)
def _read(path: Path, state: tuple[int, ...]) -> ImageDebug | None:
    known = _USED.get((path, state))
    if known is not None:
        return known
    try:
        found = sections.read(path)
    except ImageError:
        return None
    if found is None:
        return None
    return _USED.setdefault((path, state), ImageDebug(path, found))

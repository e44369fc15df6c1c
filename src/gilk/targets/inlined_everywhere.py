# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of programs that are inlined wherever they are called, and a remark about them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.errors import ImageError
from gilk.image.demangle import readable
from gilk.targets import lines

if TYPE_CHECKING:
    from gilk.image.dwarf.inlined_everywhere import InlinedEverywhere

_NAMED = 3  # the most functions that a remark names


def inlined_everywhere(path: Path) -> InlinedEverywhere:
    """The functions of a program of which its debug information tells that; none if it has no debug information."""
    return _read(path, lines.state(path))


@lru_cache(maxsize=64)
def _read(path: Path, _state: tuple[int, ...]) -> InlinedEverywhere:
    from gilk.image.dwarf import inlined_everywhere as finding  # imported here: it is rarely needed
    from gilk.image.dwarf import sections
    from gilk.image.dwarf.entries import Entries

    try:
        debug = sections.read(path)
        return finding.inlined_everywhere(Entries(debug)) if debug is not None else finding.InlinedEverywhere()
    except ImageError:
        return finding.InlinedEverywhere()


def remark(name: str, path: Path) -> list[str]:
    """A sentence about the functions of the image ``name`` that are inlined everywhere, in a list; [] if there are
    none."""
    found = inlined_everywhere(path)
    if not found.names:
        return []
    count = len(found.names)
    how_many = f"{count} function{'s' if count > 1 else ''}"
    named = ", ".join(map(readable, found.names[:_NAMED])) + (f" and {count - _NAMED} more" if count > _NAMED else "")
    are = "are" if count > 1 else "is"
    return [
        f"{how_many if found.complete else f'at least {how_many}'} of {name} {are} inlined at all calls, and so part "
        f"of the callers here: {named}; gilk scan --list {path} names them"
    ]

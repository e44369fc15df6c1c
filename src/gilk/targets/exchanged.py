# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recognises code for which a copy is executed (copies.py) by the mappings of a process, whoever has exchanged it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gilk.targets.copies import Copy
from gilk.targets.maps import Mapping

_PAGE = 4096
#: A segment of a file: its offset in the file, its link-time address, and whether it is code.
Extent = tuple[int, int, bool]
Extents = Callable[[Mapping], list[Extent]]


def exchanged(maps: tuple[Mapping, ...], extents: Extents) -> Iterator[Copy]:
    """The copies that are executed, with 0 as their ``spare``. ``extents`` gives the segments of the file of a mapping.

    The original is a mapping of a file that does not lie where the file's other mappings say it should; there, an
    anonymous mapping of the same size is executed.
    """
    anonymous = {m.start: m.end - m.start for m in maps if m.executable and not m.inode and not m.path}
    sizes = set(anonymous.values())
    for shelved in maps if anonymous else ():
        size = shelved.end - shelved.start
        if shelved.executable and shelved.inode and not shelved.ours and size in sizes:
            for start in _places(maps, shelved, extents):
                if anonymous.get(start) == size:
                    yield Copy(start, size, 0, shelved.start, in_force=True)
                    break


def _places(maps: tuple[Mapping, ...], shelved: Mapping, extents: Extents) -> Iterator[int]:
    """The addresses where a mapping of a file's code should lie, judging by the mappings of the file's other
    segments."""
    known = extents(shelved)
    for offset, address, executable in known:
        if executable and offset & -_PAGE == shelved.offset:
            for other in maps:
                if (other.device, other.inode) == (shelved.device, shelved.inode) and not other.executable:
                    for at, place, code in known:
                        if not code and at & -_PAGE == other.offset:
                            yield other.start - (place & -_PAGE) + (address & -_PAGE)

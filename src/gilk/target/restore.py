# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts a process right after both gilk and its keeper were killed.

Nothing of what they knew is needed: every byte of code that differs from the
image's file, and where a jump to our memory or a part of one stands, is put
back, and what was mapped is left to the threads that may still be in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gilk.errors import GilkError, TargetError
from gilk.target.base import Loaded
from gilk.target.copies import Copy
from gilk.target.maps import CODE_NAME, DATA_NAME, Mapping, read_maps
from gilk.target.process import Process, attach
from gilk.values import dataclass

_PAGE = 4096


@dataclass(frozen=True)
class Restored:
    """How many bytes of code were put back, by image."""

    bytes: dict[str, int]


def restore(pid: int) -> Restored:
    """Raises TargetError `nothing-to-restore` when there is no trace of gilk in the process."""
    with attach(pid) as process:
        if not any(mapping.path.startswith(CODE_NAME) for mapping in process.maps()):
            raise TargetError("nothing-to-restore", f"there is no trace of gilk in process {pid}")
        exchanged = tuple(_exchanged(process))
        if exchanged:
            process.keeper.ask("put_back", exchanged)
        images = [(loaded, part) for loaded in process.loaded() for part in _differences(process, loaded)]
        pieces = [(address, original) for _, (address, original) in images]
        process.keeper.ask("repair", pieces)
        process.keeper.ask("lower_abandoned")
        for mapping in process.maps():
            if mapping.path.startswith(DATA_NAME) and mapping.offset == 0:
                process.keeper.ask("poke", mapping.start, bytes(8))  # no magic: whoever comes next may take over
        counts: dict[str, int] = {}
        for loaded, (_, original) in images:
            counts[loaded.name] = counts.get(loaded.name, 0) + len(original)
        return Restored(counts)


def _exchanged(process: Process) -> Iterator[Copy]:
    """Code for which a copy is executed (copies.py). The original is a file's mapping that does not lie where the
    file's others say; where it should, memory of no file is executed.
    """
    maps = read_maps(process.pid)
    anonymous = {m.start: m for m in maps if m.executable and not m.inode and not m.path}
    for shelved in maps:
        if not shelved.executable or not shelved.inode or shelved.path.startswith("/memfd:"):
            continue
        for start in _places(process, maps, shelved):
            if start != shelved.start and start in anonymous:
                yield Copy(start, shelved.end - shelved.start, 0, shelved.start, in_force=True)


def _places(process: Process, maps: tuple[Mapping, ...], shelved: Mapping) -> Iterator[int]:
    """Where a mapping of a file's code should lie, by those of the file's beginning."""
    try:
        segments = process.image(Path(shelved.path)).segments
    except GilkError:
        return
    low = min(segment.address & -_PAGE for segment in segments)
    for segment in segments:
        if segment.executable and segment.offset & -_PAGE == shelved.offset:
            for first in maps:
                if first.inode == shelved.inode and first.offset == 0 and not first.executable:
                    yield first.start + (segment.address & -_PAGE) - low


def _differences(process: Process, loaded: Loaded) -> list[tuple[int, bytes]]:
    """Stretches of executable memory that are not what the file says: (address, the file's bytes)."""
    found = []
    image = process.image(loaded.path)
    for mapping in process.maps():
        if not mapping.executable or not _of(mapping, loaded):
            continue
        live = process.keeper.ask("peek", mapping.start, mapping.end - mapping.start)
        kept = image.read(mapping.start - loaded.bias, len(live))
        size = min(len(live), len(kept))
        differ = np.flatnonzero(np.frombuffer(live[:size], np.uint8) != np.frombuffer(kept[:size], np.uint8))
        for low, high in _stretches(differ):
            found.append((mapping.start + low, kept[low:high]))
    return found


def _of(mapping: Mapping, loaded: Loaded) -> bool:
    return loaded.start <= mapping.start < loaded.end and mapping.path.startswith("/")


def _stretches(rows: np.ndarray) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts)]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts a process right after both gilk and its keeper were killed.

Nothing of what they knew is needed: every byte of code that differs from the
image's file, and where a jump to our memory or a part of one stands, is put
back, and what was mapped is left to the threads that may still be in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gilk.errors import TargetError
from gilk.target.base import Loaded
from gilk.target.maps import DATA_NAME, Mapping
from gilk.target.process import Process, attach

_NAME = "/memfd:gilk-code-"


@dataclass(frozen=True)
class Restored:
    """How many bytes of code were put back, by image."""

    bytes: dict[str, int]


def restore(pid: int) -> Restored:
    """Raises TargetError `nothing-to-restore` when there is no trace of gilk in the process."""
    with attach(pid) as process:
        if not any(_NAME in mapping.path for mapping in process.maps()):
            raise TargetError("nothing-to-restore", f"there is no trace of gilk in process {pid}")
        images = [(loaded, part) for loaded in process.loaded() for part in _differences(process, loaded)]
        pieces = [(address, original) for _, (address, original) in images]
        process.keeper.ask("repair", pieces)
        for mapping in process.maps():
            if mapping.path.startswith(DATA_NAME) and mapping.offset == 0:
                process.keeper.ask("poke", mapping.start, bytes(8))  # no magic: whoever comes next may take over
        counts: dict[str, int] = {}
        for loaded, (_, original) in images:
            counts[loaded.name] = counts.get(loaded.name, 0) + len(original)
        return Restored(counts)


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

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counters in a process of who listens to its marked places (image/stapsdt.py): 16 bits each, 0 when nobody does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from gilk.target.maps import read_maps
from gilk.target.memory import Memory

_SIZE, _MOST = 2, (1 << 16) - 1
Semaphore = tuple[int, str]  # its address, and the file that is mapped there


def change(pid: int, memory: Memory, counters: Sequence[Semaphore], by: int) -> list[Semaphore]:
    """Add ``by`` to each, in a stopped process; those that were changed. Others have gone, or are at their end."""
    return [one for one in _present(pid, counters) if _add(memory, one[0], by)]


def _add(memory: Memory, address: int, by: int) -> bool:
    with contextlib.suppress(OSError):
        value = int.from_bytes(memory.read(address, _SIZE), "little") + by
        if 0 <= value <= _MOST:
            memory.write(address, value.to_bytes(_SIZE, "little"))
            return True
    return False


def _present(pid: int, counters: Sequence[Semaphore]) -> Iterable[Semaphore]:
    """Those whose file is still mapped there, and may be written."""
    maps = read_maps(pid)
    for address, path in counters:
        name = Path(path).name
        for mapping in maps:
            inside = mapping.start <= address < mapping.end - 1 and "w" in mapping.permissions
            if inside and (Path(mapping.path).name == name or path.startswith("/proc/")):
                yield address, path

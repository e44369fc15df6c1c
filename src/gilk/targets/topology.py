# SPDX-License-Identifier: LGPL-2.1-or-later
"""The chips and memory nodes that this machine's processors belong to, as sysfs has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_PROCESSORS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


def chips() -> dict[int, int]:
    """The number of the chip of each processor that is online; -1: the kernel does not know."""
    known: dict[int, int] = {}
    for path in _PROCESSORS.glob("cpu[0-9]*/topology/physical_package_id"):
        known[int(path.parts[-3].removeprefix("cpu"))] = int(path.read_text())
    return known


def most() -> int:
    """The number after the greatest that a processor of this machine may have, those that are not there yet included;
    where the kernel does not tell, the number of those that are there."""
    try:
        ranges = (_PROCESSORS / "possible").read_text()
    except OSError:
        return os.cpu_count() or 1
    return max(map(int, re.findall(r"\d+", ranges)), default=0) + 1


def nodes() -> dict[int, int]:
    """The number of the memory node of each processor; empty if the kernel has no nodes."""
    known: dict[int, int] = {}
    for path in _NODES.glob("node[0-9]*/cpulist"):
        node = int(path.parts[-2].removeprefix("node"))
        known.update(dict.fromkeys(_listed(path), node))
    return known


def online() -> list[int]:
    """The numbers of the processors that are online. Raises OSError."""
    return list(_listed(_PROCESSORS / "online"))


def _listed(path: Path) -> Iterator[int]:
    """The numbers in a file with ranges of processors, such as 0-3,8 (cpulist of sysfs)."""
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", path.read_text()):
        yield from range(int(first), int(last or first) + 1)

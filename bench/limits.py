# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run bench/limits.c, which measures what the machine can do at best."""

from __future__ import annotations

import subprocess
from pathlib import Path


def limits(program: Path) -> dict[str, float]:
    """The nanoseconds of each operation, by its name."""
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: float(value) for name, value in (line.split() for line in output.splitlines())}


def floor(what: str, found: dict[str, float]) -> float | None:
    """The least ns that the row `what` could cost on this machine: a jump there, a jump back, and the operation;
    None for rows without a limit."""
    detour, stamp = found["jump-pair"], found["rdtsc"] + found["store-16-bytes"]
    return {
        "count at entry": found["inc"] + detour,
        "count at entry and return": 2 * (found["inc"] + detour),
        "stamp at entry": stamp + detour,
        "entry and return, recorded": 2 * (stamp + detour),
    }.get(what)

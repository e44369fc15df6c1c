# SPDX-License-Identifier: LGPL-2.1-or-later
"""Count how often each instruction of a program runs, with valgrind's callgrind."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .running import Ended, run


@dataclass(frozen=True)
class Bounds:
    """How often each instruction ran, by link-time address, at ``least`` and at ``most``. The two differ once the
    program forks.

    The counts that valgrind writes for a child begin with its parent's counts at the fork, which are not known.
    """

    least: Counter[int]
    most: Counter[int]


def callgrind(command: list[str], cwd: Path, env: dict[str, str], deadline: float) -> tuple[Bounds, Ended]:
    """Run the command under callgrind. Returns the counts, and how the run ended. The counts are empty if valgrind
    is missing or wrote none, for example because it does not know an instruction."""
    options = ["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--skip-plt=no", "-q"]
    scratch = cwd.parent
    if shutil.which("valgrind") is None:
        return Bounds(Counter(), Counter()), Ended(None, b"", b"", 0.0)
    ended = run(["valgrind", *options, f"--callgrind-out-file={scratch}/cg.%p", *command], cwd, env, deadline)
    least: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for path in scratch.glob("cg.*"):  # one file for each process
        counts = parse(path.read_text(errors="replace"), str((cwd / command[0]).resolve()))
        least |= counts
        most += counts
        path.unlink()
    return Bounds(least, most), ended


def parse(text: str, image: str) -> Counter[int]:
    """The costs of the instructions of ``image`` in a callgrind file, without the inclusive costs of calls."""
    counts: Counter[int] = Counter()
    objects: dict[str, str] = {}
    address, current, is_call = 0, "", False
    for line in text.splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            current = objects.setdefault(number, name) if name else objects.get(number, "")
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            if name:
                objects[number] = name
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in "0123456789+-*" and line:
            position, *_, cost = line.split()
            address = _moved(address, position)
            if current == image and not is_call:
                counts[address] += int(cost)
            is_call = False
    return counts


def _moved(address: int, position: str) -> int:
    if position == "*":
        return address
    return address + int(position) if position[0] in "+-" else int(position, 16)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Count the executions of every instruction of a program with valgrind's callgrind, some hundred times faster than
single steps.

Differences from the stepper: threads run in turn; a rep-prefixed string instruction counts its repetitions; and other
variants of library functions may run, since valgrind's processor is a plainer one. It is not usable for programs that
look at their own processor, spin, or use restartable sequences.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

FLAGS = (
    "-q",
    "--tool=callgrind",
    "--dump-instr=yes",
    "--dump-line=no",
    "--compress-strings=no",
    "--compress-pos=no",
    "--skip-plt=no",  # otherwise a call is charged for its PLT entry
    "--vgdb=no",
)
_COST = re.compile(r"0x([0-9a-f]+) (\d+)$")


class EmulationError(Exception):
    """Valgrind is missing, or the program failed under it."""


def counts(
    command: Sequence[str | Path], addresses: Mapping[str, Sequence[int]], *, timeout: float = 120
) -> dict[tuple[str, int], int]:
    """The executions of ``addresses`` by (image name, link-time address), over a whole run that ends with 0."""
    all_counts = every_count(command, timeout=timeout)
    return {(image, at): all_counts[image, at] for image, those in addresses.items() for at in those}


def every_count(command: Sequence[str | Path], *, timeout: float = 120) -> Counter[tuple[str, int]]:
    """The number of executions of every executed instruction, by (image name, link-time address). Raises
    EmulationError."""
    if not shutil.which("valgrind"):
        raise EmulationError("valgrind is not installed")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        line = ["valgrind", *FLAGS, f"--callgrind-out-file={out}", *(str(part) for part in command)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise EmulationError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
        with out.open() as profile:
            return _parse(profile)


def _parse(profile: Iterable[str]) -> Counter[tuple[str, int]]:
    """Sum the self costs. The line after ``calls=`` has the callee's inclusive cost, which is no execution."""
    found: Counter[tuple[str, int]] = Counter()
    image = ""
    inclusive = False
    for line in profile:
        if line.startswith("ob="):
            image = line[3:].strip().rpartition("/")[2]
        elif cost := _COST.match(line):
            if not inclusive:
                found[image, int(cost[1], 16)] += int(cost[2])
            inclusive = False
        elif line.startswith("calls="):
            inclusive = True
    return found

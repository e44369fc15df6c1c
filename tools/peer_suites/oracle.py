# SPDX-License-Identifier: LGPL-2.1-or-later
"""How often each instruction of a program ran, as valgrind's callgrind counts."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from .running import Ended, run


def callgrind(command: list[str], cwd: Path, env: dict[str, str], deadline: float) -> tuple[Counter[int], Ended]:
    """By link-time address. Empty where valgrind has written nothing: it knows not all instructions there are."""
    options = ["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--skip-plt=no", "-q"]
    scratch = cwd.parent
    if shutil.which("valgrind") is None:
        return Counter(), Ended(None, b"", b"", 0.0)
    ended = run(["valgrind", *options, f"--callgrind-out-file={scratch}/cg.%p", *command], cwd, env, deadline)
    counts: Counter[int] = Counter()
    for path in sorted(scratch.glob("cg.*"), key=_number)[:1]:  # the program's; those of its children have later ids
        counts = parse(path.read_text(errors="replace"), str((cwd / command[0]).resolve()))
    for path in scratch.glob("cg.*"):
        path.unlink()
    return counts, ended


def _number(path: Path) -> int:
    return int(path.name.split(".")[1])


def parse(text: str, image: str) -> Counter[int]:
    """The costs of instructions of ``image`` in a file of callgrind's; calls' inclusive costs are left out."""
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

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure what a question about a program that ends at once costs from the command to its end, with gilk, gdb and
uftrace, in seconds of a processor.

bpftrace counts by uprobes, which change the kernel: lab_start.py measures it in a virtual machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.measure import Programs, Row

SOURCE = Path(__file__).parent.parent / "src"
AGAIN = 3  # how often each command runs again; the median counts
PROGRAM = "true"

#: The arguments of gilk, by question.
QUESTIONS = {
    "count malloc in true": ("run", "-q", "-i", "libc:malloc:entry=count", "--", PROGRAM),
    "count malloc in true, in D": (
        "dtrace",
        "-q",
        "-n",
        "pid$target:libc:malloc:entry { @ = count(); }",
        "-c",
        PROGRAM,
    ),
    "time malloc in true": ("run", "-q", "-i", "libc:malloc:entry=time", "--", PROGRAM),
    "trace all calls of true": ("trace", "-q", "-o", "{place}/trace.parquet", "--", PROGRAM),
}
_GDB = ("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set breakpoint pending on")
#: The same questions in other tools' words; uftrace sees calls from one image to another only.
PEERS = {
    "count malloc in true": (
        *(*_GDB, "-ex", "break malloc", "-ex", "ignore 1 1000000", "-ex", "run", "-ex", "info breakpoints"),
        *("--args", PROGRAM),
    ),
    "trace all calls of true": ("uftrace", "record", "--force", "-d", "{place}/data", PROGRAM),
}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """The first time, with an empty cache, and again."""
    for what, words in QUESTIONS.items():
        with tempfile.TemporaryDirectory() as place:
            environment = os.environ | {"PYTHONPATH": str(SOURCE), "GILK_CACHE": f"{place}/cache"}
            command = [sys.executable, "-m", "gilk", *words]
            yield Row(f"{what}, first", "gilk", _cost(command, place, environment), "s")
            yield Row(what, "gilk", _median(command, place, environment), "s")
            peer = PEERS.get(what, ())
            if peer and shutil.which(peer[0]):
                yield Row(what, peer[0], _median(peer, place, dict(os.environ)), "s")
            elif peer:
                yield Row(what, peer[0], None, "s", f"not installed: apt install {peer[0]}")


def _median(command: Sequence[str], place: str, environment: dict[str, str]) -> float | None:
    costs = [cost for _ in range(AGAIN) if (cost := _cost(command, place, environment)) is not None]
    return statistics.median(costs) if len(costs) == AGAIN else None


def _cost(command: Sequence[str], place: str, environment: dict[str, str]) -> float | None:
    """The seconds of a processor that the command takes, with all that it starts and waits for; None if it fails."""
    before = _children()
    words = [word.replace("{place}", place) for word in command]
    done = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _children() - before if done.returncode == 0 else None


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

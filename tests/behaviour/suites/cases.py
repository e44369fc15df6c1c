# SPDX-License-Identifier: LGPL-2.1-or-later
"""One test of a suite: how it is run, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_TICK = 0.05  # seconds between two calls of ``poll``
_LIMIT = 120.0  # seconds that a test may take
TIMED_OUT = -1000


@dataclass(frozen=True)
class Case:
    """A test of a suite, as its makefile would run it. ``results`` are files that it writes its findings to."""

    name: str
    command: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    results: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The end of a test and its whole output, without the parts that differ from one plain run to the next."""

    status: int
    output: str
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Scrub:
    """A replacement for parts that differ between any two runs: names of temporary files, process numbers, times."""

    pattern: str
    by: str

    def __call__(self, text: str) -> str:
        return re.sub(self.pattern, self.by, text, flags=re.MULTILINE)


def run_all(cases: Iterable[Case], scrubs: Iterable[Scrub], poll: Callable[[], object]) -> dict[str, Outcome]:
    """The outcomes of all cases, by name. They run one after the other; ``poll`` is called all the while."""
    rules = list(scrubs)
    return {case.name: _run(case, rules, poll) for case in cases}


def _run(case: Case, scrubs: list[Scrub], poll: Callable[[], object]) -> Outcome:
    for file in case.results:
        file.unlink(missing_ok=True)
    written = case.directory / f"{case.name.replace('/', '-')}.written"
    began = time.monotonic()
    with written.open("wb+") as output:
        # Both streams go to one file, so that their order is kept, and no process that keeps it open is waited for.
        process = subprocess.Popen(
            case.command,
            cwd=case.directory,
            env={**_BASE, **case.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        status = _wait(process, poll)
    seconds = time.monotonic() - began
    text = "".join(_text(file) for file in (written, *case.results))
    written.unlink()
    for scrub in scrubs:
        text = scrub(text)
    return Outcome(status, text, seconds)


_BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", "LC_ALL": "C"}


def _wait(process: subprocess.Popen[bytes], poll: Callable[[], object]) -> int:
    left = _LIMIT
    while left > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_TICK)
        poll()
        left -= _TICK
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return TIMED_OUT


def _text(file: Path) -> str:
    return file.read_bytes().decode("latin-1") if file.exists() else ""

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Independent answers to "what did this program execute?" and "what does this code do?".

    step_counts    executions of given addresses, by single-stepping every thread
    step_arrivals  arrivals at given addresses, one after the other, with the stack pointer and how control got there
    step_edges     pairs of addresses that ran one after the other
    relocate.run   the state some code leaves behind, under an emulator
    emulated.counts  executions of every instruction, by valgrind: much faster, one thread at a time

Nothing here imports gilk, so that a mistake of gilk's cannot hide in both.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.places import build_place
from tests.programs.build import compile_to, locked

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Stepped:
    """The result of a command under the stepper. ``counts`` is by (image name, link-time address)."""

    counts: dict[tuple[str, int], int]
    steps: int
    status: int  # as in subprocess: negative for a signal
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, order=True)
class Edge:
    """A pair of instructions that ran one after the other: ``to`` is the next instruction after ``source``, or the
    target of its branch, call or return."""

    image: str
    source: int
    to_image: str
    to: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of control at an address. ``sp`` is the stack pointer, ``highest`` the highest value that it had
    since the last arrival. tests/oracle/stepper.c says what ``how`` may be; ``source`` is the instruction before."""

    thread: int
    image: str
    address: int
    how: str
    sp: int
    highest: int
    source_image: str
    source: int


class StepperError(Exception):
    """An error of the stepper itself; the text is its message."""


@cache
def stepper() -> Path:
    """The path of the stepper, which is built if need be."""
    output = build_place() / "oracle" / "stepper"
    sources = [HERE / f"{name}.c" for name in ("stepper", "places", "edges")]
    with locked(output):
        return compile_to(output, sources, ("-O2",), sorted(HERE.glob("*.h")))


def step(
    command: Sequence[str | Path],
    addresses: Mapping[str, Sequence[int]],
    *,
    start: str = "start",
    children: bool = False,
    stdin: bytes = b"",
    timeout: float = 300,
) -> Stepped:
    """Run ``command`` one instruction at a time, and count the executions of ``addresses``, by image name.

    ``start="entry"`` counts from the main program's entry point on, the loader running at full speed; ``children`` also
    counts in forked processes until they exec. tests/oracle/stepper.c defines an execution. Raises StepperError.
    """
    lines = [f"{image} {address:x}\n" for image, those in addresses.items() for address in those]
    with tempfile.TemporaryDirectory() as directory:
        places = Path(directory, "places")
        places.write_text("".join(lines))
        flags = ["-s", start, "-a", str(places), *(["-f"] if children else [])]
        done, text = _run(flags, command, Path(directory, "out"), stdin, timeout)
    counts = {(image, int(address, 16)): int(n) for image, address, n in map(str.split, text[:-1])}
    return Stepped(counts, int(text[-1].split()[-1]), done.returncode, done.stdout, done.stderr)


def step_counts(
    command: Sequence[str | Path], addresses: Mapping[str, Sequence[int]], *, start: str = "start"
) -> dict[tuple[str, int], int]:
    """The executions by (image name, link-time address). Raises StepperError, also if the command did not exit with
    0."""
    result = step(command, addresses, start=start)
    if result.status:
        raise StepperError(f"{command[0]} ended with {result.status}: {result.stderr.decode(errors='replace')}")
    return result.counts


def step_arrivals(
    command: Sequence[str | Path],
    addresses: Mapping[str, Sequence[int]],
    *,
    start: str = "start",
    children: bool = False,
    stdin: bytes = b"",
    steps: int = 0,
    timeout: float = 600,
) -> tuple[list[Arrival], bool]:
    """The arrivals at ``addresses`` in order, with address randomization off, and whether the command got to its end.

    If ``steps`` is not 0, the command is killed after so many instructions of all its threads. Raises StepperError.
    """
    places = [(image, address) for image, those in addresses.items() for address in those]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "places")
        path.write_text("".join(f"{image} {address:x}\n" for image, address in places))
        flags = ["-s", start, "-n", "-l", "-m", str(steps), "-a", str(path), *(["-f"] if children else [])]
        _, text = _run(flags, command, Path(directory, "out"), stdin, timeout)
    found = []
    for thread, place, how, sp, high, image, source in map(str.split, text[:-1]):
        found.append(Arrival(int(thread), *places[int(place)], how, int(sp, 16), int(high, 16), image, int(source, 16)))
    return found, not steps or int(text[-1].split()[-1]) < steps


def step_edges(command: Sequence[str | Path], *, start: str = "start", timeout: float = 300) -> set[Edge]:
    """Every pair of addresses in images that ran one after the other in one thread, without the deliveries of
    signals."""
    with tempfile.TemporaryDirectory() as directory:
        _, text = _run(["-s", start, "-e"], command, Path(directory, "out"), b"", timeout)
    rows = map(str.split, text[:-1])
    return {Edge(image, int(source, 16), to_image, int(to, 16)) for image, source, to_image, to in rows}


def _run(
    flags: Sequence[str], command: Sequence[str | Path], out: Path, stdin: bytes, timeout: float
) -> tuple[subprocess.CompletedProcess[bytes], list[str]]:
    line = [str(stepper()), *flags, "-o", str(out), "--", *(str(part) for part in command)]
    done = _into_files(line, stdin, timeout)
    text = out.read_text().splitlines() if out.exists() else []
    if not text or not text[-1].startswith("# steps"):
        raise StepperError(done.stderr.decode(errors="replace") or f"the stepper ended with {done.returncode}")
    return done, text


def _into_files(line: Sequence[str], stdin: bytes, timeout: float) -> subprocess.CompletedProcess[bytes]:
    """Like subprocess.run with pipes, but with files: some programs behave differently with pipes."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        # The environment is given explicitly: readline, which pytest loads, adds variables that Python's os.environ
        # does not show.
        done = subprocess.run(line, stdin=source, stdout=out, stderr=err, timeout=timeout, env=dict(os.environ))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(line, done.returncode, out.read(), err.read())

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Build and run the measured programs, and take the figures.

`Hot` runs bench/targets/hot.c, which prints about every 20 ms what a call costs. A tool's cost per hit is the cost of a
call while its probe is in, less the cost in the same process before. Both are the lower quartile of their batches, and
the least of several processes counts, because other programs on the machine can only add to a batch.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent
BUILD = HERE / "build"
SECONDS = 1.0  # seconds of batches for one figure
BURST = 20_000  # calls between sleeps of 10 ms, where calls are recorded: about 1.5 million records a second
TIMES = 3  # measurements for one figure
SETTLE = 0.3  # seconds until memory is settled, and until a crash of the program would show


@dataclass(frozen=True)
class Row:
    """A figure: `what` was measured (the same text for every tool), with which `tool`, in which `unit`."""

    what: str
    tool: str
    value: float | None  # None: the measurement failed, and `note` says why
    unit: str = "ns"
    note: str = ""


@dataclass(frozen=True)
class Programs:
    """The paths of the built programs."""

    hot: Path
    many: Path
    limits: Path


def build(functions: int = 11_000) -> Programs:
    """Compile the programs that are missing or older than their sources. Raises CalledProcessError."""
    from bench.targets.many import source

    BUILD.mkdir(exist_ok=True)
    generated = BUILD / f"many{functions}.c"
    if not generated.exists() or generated.read_text() != source(functions):
        generated.write_text(source(functions))
    hot, limits = (compile_program(HERE / name, "-O2") for name in ("targets/hot.c", "limits.c"))
    return Programs(hot, compile_program(generated, "-O1"), limits)


def compile_program(path: Path, *flags: str, after: Sequence[str] = ()) -> Path:
    """The program made of a source file; compiled if it is missing or older. The libraries ``after`` follow the file
    in the command. Raises CalledProcessError."""
    program = BUILD / path.stem
    if not program.exists() or program.stat().st_mtime < path.stat().st_mtime:
        subprocess.run(["cc", *flags, "-o", program, path, *after], check=True)
    return program


def quartile(values: Sequence[float]) -> float:
    """The lower quartile of the values; NaN if there are none."""
    return sorted(values)[len(values) // 4] if values else float("nan")


def least(measure: Callable[[], Row]) -> Row:
    """The least of several measurements, each with a process of its own, or the first that failed. Rows without a
    note go first: records that are dropped cost less than those that are kept."""
    found = []
    for _ in range(TIMES):
        row = measure()
        if row.value is None:
            return row
        found.append(row)
    return min(found, key=lambda row: (bool(row.note), row.value or 0.0))


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the program and the tool that wraps it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


@dataclass
class Hot:
    """The busy program, running under `wrapper` (the command of a tool that must start it) or by itself.

    with Hot(programs.hot, "leaf") as hot:
        before = hot.cost()
    """

    program: Path
    function: str
    wrapper: Sequence[str] = ()
    burst: int = 0  # calls between sleeps; 0: it never sleeps
    _text: bytes = field(default=b"", init=False)
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        command = [*self.wrapper, str(self.program), self.function, "-1", str(self.burst)]
        self._process = _start(command)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _stop(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status of the program: None while it runs, negative if a signal ended it, 3 if a call returned a
        wrong value."""
        return self._process.poll()

    def cost(self, seconds: float = SECONDS, settle: float = 0.15) -> float:
        """The nanoseconds of a call during the next `seconds`, after `settle` seconds that do not count."""
        self.costs(settle)
        return quartile(self.costs(seconds))

    def costs(self, seconds: float) -> list[float]:
        """The costs that the program prints during the next `seconds`; fewer if it ends."""
        assert self._process.stdout is not None
        found: list[float] = []
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while (left := end - time.monotonic()) > 0 and selector.select(left):
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    break
                found += self._numbers(chunk)
        return found

    def _numbers(self, chunk: bytes) -> list[float]:
        *lines, self._text = (self._text + chunk).split(b"\n")
        return [float(line) for line in lines if line[:1].isdigit()]


@dataclass
class Many:
    """The running program of many functions. `with` returns once it has called all of them a few times."""

    program: Path
    wrapper: Sequence[str] = ()
    started: float = field(default=0.0, init=False)  # seconds from the start, with the tool, to main()
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Self:
        start = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._process = _start([*self.wrapper, str(self.program)])
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().split()
        self.started = float(ready[1]) - start if len(ready) == 2 else float("nan")
        time.sleep(SETTLE)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _stop(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        return self._process.poll()


def how_it_ended(status: int | None) -> str:
    if status is None or status == 0:
        return ""
    if status == 3:
        return "the function returned a wrong value"
    return f"the program died of {signal.Signals(-status).name}" if status < 0 else f"the program ended with {status}"


def symbols(program: Path) -> dict[str, int]:
    """The functions that `program` defines: name -> address in the file."""
    listing = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listing.splitlines())
    return {name: int(address, 16) for address, kind, name in rows if kind in "Tt"}


def load_bias(pid: int, program: Path) -> int:
    """The number to add to an address in a position-independent program to get its address in the process."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith(f" {program.resolve()}"):
            extent, _, offset, *_ = line.split()
            return int(extent.partition("-")[0], 16) - int(offset, 16)
    raise LookupError(f"{program} is not mapped in {pid}")


def memory(pid: int) -> float:
    """KiB that are this process's share of memory (Pss: a page shared by two counts half to each)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return float(line.split()[1])
    return float("nan")

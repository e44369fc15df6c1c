# SPDX-License-Identifier: LGPL-2.1-or-later
"""Building the measured programs, watching them, and what a measurement is.

`Hot` runs bench/targets/hot.c, which says about every 20 ms what a call costs.
A tool's cost per hit is the cost of a call while its probe is in, less that of
the same process before. Both are the lower quartile of their batches, and of some
processes the least is taken: other programs on the machine can only add to a
batch, and do, here and there.
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
SECONDS = 1.0  # of batches for one figure
BURST = 20_000  # calls, then 10 ms of sleep, where calls are recorded: about 1.5 million records a second
TIMES = 3  # measurements for one figure
SETTLE = 0.3  # seconds until memory and a program's fate are known


@dataclass(frozen=True)
class Row:
    """One figure: `what` was measured (the same text for every tool), of which `tool`, in which `unit`."""

    what: str
    tool: str
    value: float | None  # None: tried, and failed as `note` says
    unit: str = "ns"
    note: str = ""


@dataclass(frozen=True)
class Programs:
    """The built programs."""

    hot: Path
    many: Path
    limits: Path


def build(functions: int = 11_000) -> Programs:
    """Compile what is missing or older than its source. Raises CalledProcessError."""
    from bench.targets.many import source

    BUILD.mkdir(exist_ok=True)
    generated = BUILD / f"many{functions}.c"
    if not generated.exists() or generated.read_text() != source(functions):
        generated.write_text(source(functions))
    hot, limits = (compile_program(HERE / name, "-O2") for name in ("targets/hot.c", "limits.c"))
    return Programs(hot, compile_program(generated, "-O1"), limits)


def compile_program(path: Path, *flags: str, after: Sequence[str] = ()) -> Path:
    """The program made of a source file, where that is newer; ``after`` it come libraries. CalledProcessError."""
    program = BUILD / path.stem
    if not program.exists() or program.stat().st_mtime < path.stat().st_mtime:
        subprocess.run(["cc", *flags, "-o", program, path, *after], check=True)
    return program


def quartile(values: Sequence[float]) -> float:
    """The lower quartile; NaN of nothing."""
    return sorted(values)[len(values) // 4] if values else float("nan")


def least(measure: Callable[[], Row]) -> Row:
    """The least of some measurements, each with a process of its own; rather one without a note: a drop costs less than
    a record. Or the first that failed."""
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
        """None while it runs; negative when a signal ended it, 3 when a call returned something wrong."""
        return self._process.poll()

    def cost(self, seconds: float = SECONDS, settle: float = 0.15) -> float:
        """Nanoseconds a call, over the next `seconds`, after `settle` seconds that are thrown away."""
        self.costs(settle)
        return quartile(self.costs(seconds))

    def costs(self, seconds: float) -> list[float]:
        """What it says during the next `seconds`; short when it ends."""
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
    """The program of many functions, running; it has called all of them a few times when `with` is entered."""

    program: Path
    wrapper: Sequence[str] = ()
    started: float = field(default=0.0, init=False)  # seconds from its start, tool included, to its main()
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
    """Name -> address in the file, of the functions `program` defines."""
    listing = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listing.splitlines())
    return {name: int(address, 16) for address, kind, name in rows if kind in "Tt"}


def load_bias(pid: int, program: Path) -> int:
    """What to add to an address in the file of a position-independent program."""
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

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program that obeys commands, and traces of it."""

from __future__ import annotations

import select
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gilk
from gilk.runs.progress import Progress
from gilk.trace.traced import TraceDescription
from tests.behaviour.harness import differences, leftovers
from tests.places import build_place
from tests.programs.build import compile_to, locked

HERE = Path(__file__).resolve().parent


@cache
def program(*flags: str) -> Path:
    output = build_place() / "tracing" / "".join(flags) / "paced"
    with locked(output):
        return compile_to(output, [HERE / "paced.c"], ("-O0", "-falign-functions=16", *flags))


def alpha(times: int) -> list[str]:
    """The functions that repeat() enters, in order."""
    return ["alpha", "leaf", "leaf", "beta", "leaf"] * times


class Paced:
    """The program, which obeys one command after another. A context manager: at the end the program is let go, and
    must end well."""

    def __init__(self, *flags: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [program(*flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **options
        )
        assert self._line() == "ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def _line(self) -> str:
        assert self.process.stdout
        return str(self.process.stdout.readline())

    def tell(self, command: str) -> None:
        """Send a command without waiting for it to be done."""
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")

    def do(self, command: str) -> None:
        self.tell(command)
        assert self._line() == ("" if command[0] == "x" else "done\n")

    def done(self, wait: bool = True) -> bool:
        """Whether the last command is done."""
        assert self.process.stdout
        if not wait and not select.select([self.process.stdout], [], [], 0)[0]:
            return False
        assert self._line() == "done\n"
        return True

    def __enter__(self) -> Paced:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.process.kill()
        self.process.communicate(timeout=250)
        assert kind is not None or self.process.returncode == 0


@dataclass
class Observed:
    """The result of a trace. ``functions`` are in the order of their entries, without those entered before the
    trace."""

    functions: list[str]
    states: Counter[str]
    traced: TraceDescription
    report: dict[str, Any]
    threads: int
    processes: int


def observe(
    target: Paced,
    start: str,
    stop: str,
    commands: Sequence[str],
    *,
    scope: Sequence[str] = ("paced:",),
    when_waiting: Callable[[], None] | None = None,
    stop_when_done: bool = False,
    output: Path | None = None,
) -> Observed:
    """Trace ``target`` while it is sent ``commands``. Returns the calls of main() alone if that is open.

    ``when_waiting`` is called once the starting event is waited for; the commands are sent then, or once the trace has
    begun if the event is ``now``. In every case the code must be restored at the end.
    """
    running = gilk.prepare_trace([target.pid], (), output, start, stop, scope, (), True)
    told: list[str] = []

    def show(progress: Progress) -> None:
        nonlocal when_waiting
        if when_waiting is not None and progress.what != "following":
            when_waiting()
            when_waiting = None
        elif when_waiting is None and len(told) < len(commands) and (not told or target.done(wait=False)):
            told.append(commands[len(told)])
            target.tell(told[-1])

    try:
        running.begin()
        running.wait(None, lambda: stop_when_done and _answered(target, told, commands), show)
        result = running.finish()
        report = gilk.trace_report(running, result).to_json()
    finally:
        for process in running.processes:
            process.keeper.leave()
    flow = running.flow()
    assert report["restored"] is True, report["notes"]
    assert (report["drops"], report["lost"], report["corrupt"]) == (0, 0, 0)
    if target.process.poll() is None:
        assert differences(target.pid) == []
        assert leftovers(target.pid) == []
    rows = flow.table.to_pylist() if flow is not None else []
    entered = [row["function"] for row in rows if row["state"] != "before"]
    threads, processes = len({row["tid"] for row in rows}), len({row["pid"] for row in rows})
    states = Counter(row["state"] for row in rows)
    return Observed(entered, states, running.traced(), report, threads, processes)


def _answered(target: Paced, told: list[str], commands: Sequence[str]) -> bool:
    if len(told) < len(commands):
        return False
    return target.done(wait=False)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Try one program, built with one set of flags: plainly, under callgrind, and in each way under gilk."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import ways
from .building import FLAG_SETS, build, own_functions
from .differences import Difference, Reason, Spot, counts, ends, explained, unsteady
from .oracle import Bounds, callgrind
from .running import Ended, run
from .suites import Program

_SLOWER_GILK, _SLOWER_CALLGRIND = 30.0, 100.0  # multiples of the plain run's time that a deadline adds

_STATIC = 5  # times as long for static programs: 100 000 points of libc are planned, in each session anew


@dataclass(frozen=True)
class Settings:
    gilk: list[str]
    env: dict[str, str]
    ways: tuple[str, ...]
    deadline: float
    reasons: list[Reason]


@dataclass
class Result:
    """The result of a trial. ``outcome`` is built, not-built or not-run. ``counters`` is the number of counters that
    were compared with the oracle."""

    suite: str
    program: str
    flags: str
    key: str
    outcome: str = "built"
    why: str = ""
    ways: list[str] = field(default_factory=list)
    points: int = 0
    refused: int = 0
    counters: int = 0
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Difference]:
        return [each for each in self.differences if not each.reason]

    @property
    def cut_short(self) -> bool:
        """Whether a deadline ended a run, so that another attempt may tell more."""
        return any(each.what == "deadline" for each in self.differences)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Result:
        return cls(**{**row, "differences": [Difference(**each) for each in row["differences"]]})


def key(program: Program, flags: str, chosen: tuple[str, ...]) -> str:
    """A digest of everything that the result depends on, except gilk and the compiler."""
    digest = hashlib.sha256(repr((program.flags, program.libraries, FLAG_SETS[flags], chosen)).encode())
    for source in program.sources:
        digest.update(source.read_bytes() if source.exists() else b"")
    return digest.hexdigest()[:16]


class Trial:
    def __init__(self, suite: str, program: Program, flags: str, settings: Settings) -> None:
        self._program, self._settings = program, settings
        self._leaves = self._static = False
        self._own: frozenset[str] = frozenset()
        self._result = Result(suite, program.name, flags, key(program, flags, settings.ways))

    def run(self) -> Result:
        with tempfile.TemporaryDirectory(prefix="peers-") as name:
            self._scratch = Path(name)
            self._cwd = self._scratch / "cwd"
            self._points = self._scratch / "points"
            self._env = {**self._settings.env, "HOME": str(self._cwd), "PEERS_POINTS": str(self._points)}
            self._run()
        known, result = self._settings.reasons, self._result
        of = (result.suite, result.program, result.flags)
        result.differences = [explained(each, *of, known) for each in result.differences]
        return result

    def _run(self) -> None:
        self._cwd.mkdir()
        self._made, built = build(self._program, self._result.flags, self._cwd, self._env)
        if built.status:
            self._result.outcome, self._result.why = "not-built", built.err.decode(errors="replace")[:300]
            return
        self._static = "-static" in FLAG_SETS[self._result.flags]
        if self._static:
            self._own = own_functions(self._program, self._result.flags, self._cwd, self._env)
        self._made = self._made.rename(self._scratch / "prog")
        self._plain = self._one([], self._settings.deadline)
        if self._plain.status is None:
            self._result.outcome, self._result.why = "not-run", "it does not end within the deadline"
            return
        self._leaves = bool(self._plain.left)
        self._but = unsteady(self._plain, self._one([], self._settings.deadline))
        self._result.notes += [f"{each} differs between two plain runs" for each in sorted(self._but)]
        reports = dict(self._under_gilk())
        spots = ways.read_spots(self._points)
        if any("counts" in report for report in reports.values()):
            self._compare_counts(reports, spots)

    def _one(self, before: list[str], deadline: float) -> Ended:
        """Run the program, with the words ``before`` in front, in a directory that has nothing but the program."""
        self._fresh()
        return self._ran([*before, "./prog"], deadline)

    def _ran(self, command: list[str], deadline: float) -> Ended:
        """Run a command. If the program leaves processes behind even in a plain run, they are not waited for."""
        if self._leaves:
            return run(command, self._cwd, self._env, deadline, linger=0.0)
        return run(command, self._cwd, self._env, deadline)

    def _fresh(self) -> None:
        shutil.rmtree(self._cwd, ignore_errors=True)
        self._cwd.mkdir()
        shutil.copy2(self._made, self._cwd / "prog")

    def _under_gilk(self) -> Iterator[tuple[str, dict[str, Any]]]:
        result = self._result
        deadline = self._settings.deadline + _SLOWER_GILK * self._plain.seconds
        deadline *= _STATIC if self._static else 1
        for way in self._settings.ways:
            self._fresh()
            command = ways.command(self._settings.gilk, way, self._scratch, ["./prog"])
            ended, report = ways.parted(self._ran(command, deadline))
            result.ways.append(way)
            result.differences += ends(way, self._plain, ended, self._but)
            if report is None:
                if ended.status is not None:
                    result.differences.append(Difference(way, "report", f"no report: {ended.err[-300:]!r}"))
                continue
            result.points += report["points"]["asked"]
            result.refused += report["points"]["refused"]
            if not report["restored"]:
                result.differences.append(Difference(way, "restored", "the code is not what it was"))
            yield way, report

    def _compare_counts(self, reports: dict[str, dict[str, Any]], spots: dict[str, Spot]) -> None:
        """Compare the counters with the oracle, if the program behaves under callgrind as in the plain run."""
        result = self._result
        oracle, ended = self._oracle()
        if not oracle.most or any(ends("callgrind", self._plain, ended, self._but)):
            result.notes.append("no oracle: callgrind does not run it as it runs plainly, or is not there")
            return
        for way, report in reports.items():
            found = {label: n for label, n in ways.counted(report, spots).items() if self._comparable(label)}
            result.counters += len(found)
            wrong = list(counts(way, found, spots, oracle))
            if wrong and self._oracle()[0] != oracle:
                result.notes.append("counts differ between two runs of callgrind")
                return
            result.differences += wrong

    def _comparable(self, label: str) -> bool:
        """Whether the function's counts can be compared. In a static program only its own functions can: libc
        selects functions by the processor, and valgrind presents another processor."""
        return not self._static or label.split(":")[1] in self._own

    def _oracle(self) -> tuple[Bounds, Ended]:
        self._fresh()
        deadline = self._settings.deadline + _SLOWER_CALLGRIND * self._plain.seconds
        return callgrind(["./prog"], self._cwd, self._env, deadline)

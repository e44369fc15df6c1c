# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs as Debian ships them pass their own test suites while every block of theirs, and of libc's, is counted.

Each suite first runs plainly: how every test ends, and all that it prints, must be the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import ROOT
from tests.behaviour.suites.catalogue import SUITES
from tests.behaviour.suites.sources import Archive, UnavailableError

#: A program that goes wrong ends by one of these; tests that do so on purpose do it either way.
_CRASHES = {signal.SIGSEGV, signal.SIGILL, signal.SIGBUS, signal.SIGTRAP, signal.SIGABRT, signal.SIGFPE, signal.SIGSYS}

#: Tests whose outcome depends on something that instruments do change, and the reasons.
EXCLUDED = {
    "bash": {"run-read": "asks that reading an end of file take less than 10 us: `read -t 0.00001 -e`"},
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    try:
        return Archive(tmp_path_factory.mktemp("archive"))
    except UnavailableError as error:
        pytest.skip(str(error))


class Work:
    """The directory in which a suite runs, each time from its pristine source."""

    def __init__(self, name: str, pristine: Path, directory: Path) -> None:
        self._name, self._pristine, self._directory = name, pristine, directory

    def run(self, way: str, cases: Collection[str] = ()) -> dict[str, Any]:
        """Run the suite. ``way`` is plain or instrumented; ``cases`` are the tests to run, by default all. Returns
        what tests.behaviour.suites.runner printed."""
        source, result = self._directory / "source", self._directory / "result"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(self._pristine, source, symlinks=True)
        pattern = f"^({'|'.join(map(re.escape, cases))})$" if cases else ""
        module = "tests.behaviour.suites.runner"
        command = [sys.executable, "-m", module, way, self._name, self._directory / "bin", source, result, pattern]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        done = subprocess.run(command, env=env, start_new_session=True, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def different(plain: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The tests with different outcomes: the plain one, and the one with instruments."""
    assert plain["outcomes"].keys() == found["outcomes"].keys()
    pairs = {name: (outcome, found["outcomes"][name]) for name, outcome in plain["outcomes"].items()}
    return {name: pair for name, pair in pairs.items() if _seen(pair[0]) != _seen(pair[1])}


def _seen(outcome: dict[str, Any]) -> tuple[int, str]:
    return outcome["status"], outcome["output"]


def crashes(found: dict[str, Any]) -> Counter[int]:
    return Counter(signal for end in found["ends"] if (signal := end & 0x7F) in _CRASHES)


def unharmed(report: dict[str, Any]) -> None:
    assert report["restored"] is True
    assert (report["differences"], report["leftovers"], report["lost"]) == ([], [], 0)
    assert report["spliced"] > 0.995 * report["points"]
    assert report["hits"] > 1_000_000


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUITES)
def test_a_stock_program_passes_its_own_test_suite_under_gilk(name: str, archive: Archive, tmp_path: Path) -> None:
    suite = SUITES[name]
    if not Path(suite.program).exists():
        pytest.skip(f"no {suite.program}")
    try:
        pristine = (archive.binary if suite.binary else archive.source)(suite.package)
    except UnavailableError as error:
        pytest.skip(str(error))
    work = Work(name, pristine, tmp_path)
    plain, found = work.run("plain"), work.run("instrumented")
    print(f"{name}: {len(plain['outcomes'])} tests, {len(plain['ends'])} starts; {found['report']}")
    unharmed(found["report"])
    assert crashes(found) == crashes(plain)
    suspects = different(plain, found).keys() - EXCLUDED.get(name, {}).keys()
    if suspects:
        # Some tests wait for a clock, and the machine may be busy: a difference counts only if it is there again.
        print("again:", *sorted(suspects))
        plain, found = work.run("plain", suspects), work.run("instrumented", suspects)
        assert crashes(found) == crashes(plain)
        assert different(plain, found) == {}


#: Scripts of bash's suite that do not run while all stores of bash are examined, and the reasons.
_NOT_EXAMINED = {
    **EXCLUDED["bash"],
    "run-ifs-posix": "runs 6856 small tests; on a busy machine it had not ended after six minutes",
    "run-jobs": "waits for a minute by itself",
    "run-trap": "waits for a quarter of a minute by itself",
}


def examined_by(aspect: str, archive: Archive, place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run each script of bash's suite plainly and with an example woven in, check that it does the same, and yield its
    name with the report about the aspect."""
    try:
        pristine = archive.source("bash")
    except UnavailableError as error:
        pytest.skip(str(error))
    work, file = Work("bash", pristine, place), str(ROOT / "examples" / "aspects" / f"{aspect}.aspect")
    listed = {one.name for one in (pristine / "tests").glob("run-*")} - {"run-all", "run-minimal", "run-gprof"}
    examined = sorted(listed - _NOT_EXAMINED.keys())
    assert len(examined) > 70
    for name in examined:
        plain, found = work.run("plain", [name]), work.run(file, [name])
        assert different(plain, found) == {}
        assert crashes(found) == crashes(plain), name
        report = found["report"]
        assert (report["differences"], report["leftovers"]) == ([], []), name
        yield name, report


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_bash_passes_its_own_tests_while_an_aspect_reports_failures_in_sourced_files(
    archive: Archive, tmp_path: Path
) -> None:
    matches = 0
    for name, report in examined_by("status", archive, tmp_path):
        assert len(report["reports"]) == sum(report["matches"]), name
        matches += sum(report["matches"])
    assert matches > 0


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_bash_passes_its_own_tests_while_an_aspect_looks_for_overflows(archive: Archive, tmp_path: Path) -> None:
    """The detector is silent, and each test prints and returns the same. A block that one process has is not one of
    another, forked from the same: the detector would prevent a store there, and the tests would fail."""
    matches = Counter[str]()
    for name, report in examined_by("overflow", archive, tmp_path):
        assert report["reports"] == [], name
        matches += Counter(dict(zip(("blocks", "overflows", "freed"), report["matches"], strict=True)))
    assert matches["blocks"] > matches["freed"] > 1_000_000
    assert matches["overflows"] == 0

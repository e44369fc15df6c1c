# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk run --every` prints the counts of each period; together the periods never have more than the whole run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter

import pytest

from gilk.render.period import to_text
from gilk.runs.outcome import added
from gilk.runs.periods import Periods
from gilk.runs.progress import Progress
from gilk.trace.period import Period
from tests.behaviour.harness import Loop, run_gilk
from tests.programs.build import build


class Sessions:
    """A stand-in for a run, whose sessions report what the test wants."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}

    @property
    def sessions(self) -> list[Sessions]:
        return [self]

    def counts(self) -> dict[str, int]:
        return self.now


def test_a_period_has_the_counts_since_the_last_one() -> None:
    run, told = Sessions(), list[Period]()
    periods = Periods(run, 1.0, told.append)  # type: ignore[arg-type]
    for seconds, counts, records, drops in (
        (0.5, {"f": 1}, 3, 0), (1.0, {"f": 2, "g": 0}, 5, 0), (1.4, {"f": 9}, 6, 0), (4.2, {"f": 9, "g": 4}, 7, 2),
        (4.9, {"f": 10, "g": 4}, 7, 2), (5.0, {"f": 10, "g": 4}, 7, 2),
    ):  # fmt: skip
        run.now = counts
        periods.look(Progress(seconds, 0, records, drops))
    assert told == [
        Period(1.0, {"f": 2}, 5, 0), Period(4.2, {"f": 7, "g": 4}, 2, 2), Period(5.0, {"f": 1}, 0, 0),
    ]  # fmt: skip
    assert to_text(told[1]).splitlines()[0].startswith("after 4.2 s, 2 records, 2 records dropped")


def test_periods_add_up_to_no_more_than_the_whole() -> None:
    with Loop([build("shortblocks")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "--every", "20ms", "-p", str(loop.pid)]
        words += ["-i", "sb_*:entry=count", "-i", "sb_tiny1:entry=stamp"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            periods = [json.loads(running.stdout.readline()) for _ in range(5)]
            running.send_signal(signal.SIGINT)
            *rest, report = map(json.loads, running.stdout)
        periods += rest
    times = [period["after"] for period in periods]
    assert times == sorted(times)
    assert all(number > 0 for period in periods for number in period["counts"].values())
    total = Counter(added([period["counts"] for period in periods]))
    assert total and total <= Counter(report["counts"])
    assert sum(period["records"] for period in periods) <= report["records"]
    assert report["restored"] is True


@pytest.mark.parametrize("every", ["0", "1ms", "soon"])
def test_a_bad_period_is_refused(every: str) -> None:
    done = run_gilk("run", "-i", "main:entry=count", "--every", every, "--", "true")
    assert done.returncode == 2 and "--every" in done.stderr and "(usage)" in done.stderr

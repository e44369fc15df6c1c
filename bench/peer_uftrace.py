# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure uftrace (Debian: uftrace) with -P, which patches a function's entry, hijacks its return, and records both
with the time.

uftrace patches at start only, so a cost is the difference between two processes, and an activation the difference in
time until main() is reached. It can neither count without recording nor record an entry alone.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator

from bench.measure import BURST, Hot, Many, Programs, Row, least

TOOL = "uftrace"
STARTS = 3  # processes started for the median of a start
PATTERNS = {1000: "^f00", 5000: "^f0[0-4]", 11_000: "^f[01]"}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure of uftrace, or one row that says why there is none."""
    if not shutil.which("uftrace"):
        yield Row("entry and return, recorded", TOOL, None, note="not installed: apt install uftrace")
        return
    yield least(lambda: _per_hit(programs))
    plain = _start_time(programs)
    for count in counts:
        if count in PATTERNS:
            elapsed = _start_time(programs, "-P", PATTERNS[count]) - plain
            yield Row(f"activate {count} functions", TOOL, elapsed * 1e3, "ms", "at start only")


def _per_hit(programs: Programs) -> Row:
    with Hot(programs.hot, "leaf", burst=BURST) as hot:
        before = hot.cost()
    with tempfile.TemporaryDirectory() as data:
        wrapper = ("uftrace", "record", "--no-libcall", "-P", "^leaf$", "-d", f"{data}/trace")
        with Hot(programs.hot, "leaf", wrapper, burst=BURST) as hot:
            cost = hot.cost()
    return Row("entry and return, recorded", TOOL, cost - before)


def _start_time(programs: Programs, *options: str) -> float:
    """The median of the seconds from the start of uftrace to main() of the program."""
    times = []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as data:
            wrapper = ("uftrace", "record", "--force", "--no-libcall", *options, "-d", f"{data}/trace")
            with Many(programs.many, wrapper) as many:
                times.append(many.started)
    return statistics.median(times)

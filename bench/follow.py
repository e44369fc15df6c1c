# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure following the flow of control: the worst slowdown of a program, and how long following takes to begin.

The worst case is a loop that does nothing but call an empty function (sptracer.txt 5.4: 500 % slower); a function that
is called too often is left out after some milliseconds.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import gilk
from bench.measure import TIMES, Hot, Many, Programs, Row
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope

TOOL = "gilk"
SECONDS = 3.0
TOLD_MOST = 11_000


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure. Of the counts of functions only the largest is used: all functions of the program."""
    yield _loop(programs)
    if TOLD_MOST in counts:
        yield from _beginning(programs)


def _loop(programs: Programs) -> Row:
    with Hot(programs.hot, "leaf") as hot, tempfile.TemporaryDirectory() as place:
        before = hot.cost()
        running = gilk.prepare_trace([hot.pid], (), Path(place, "trace"), "now", f"for:{SECONDS:g}s", ("hot:",))
        running.begin()
        follow = threading.Thread(target=running.wait, args=(None, lambda: False, lambda _: None))
        follow.start()
        during = hot.cost(SECONDS / 2)
        follow.join()
        result = running.finish()
        running.processes[0].keeper.leave()
    note = "" if result.restored else "the code was not restored"
    return Row("empty function in a loop, slower", TOOL, 100 * (during / before - 1), "%", note)


def _beginning(programs: Programs) -> Iterator[Row]:
    """Measure how long following takes to begin in the program, the C library and the dynamic linker."""
    took, still, functions = [], [], 0
    for _ in range(TIMES):
        with Many(programs.many) as many, gilk.attach(many.pid) as target, Follower(target.process) as follower:
            numbers, _ = follower.prepare(target.images, TraceScope())
            follower.copy_code()
            functions = len(numbers)
            for _ in range(TIMES):
                follower.expect(numbers)
                outcome = follower.begin()
                follower.leave()
                took.append(1e3 * outcome.total)
                still.append(1e3 * outcome.seconds)
    yield Row("begin to follow all functions", TOOL, min(took), "ms", f"{functions} functions")
    yield Row("threads stand still for that", TOOL, min(still), "ms")

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure gilk itself, from Python: the cost of a hit, and the time and memory of a change."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import gilk
from bench.measure import BURST, SETTLE, TIMES, Hot, Many, Programs, Row, how_it_ended, least, memory, quartile
from gilk import Request, Session, Target
from gilk.targets.apart import KEEPER

TOOL = "gilk"
GLOBS = {1000: "f00???", 5000: "f0[0-4]???", 11_000: "f?????"}
SLICE = 0.02  # seconds between looks at the buffers
FIRST = 0.15  # seconds that are not counted: a batch may have begun before the probes went in

# By the text of the row: function, instruments, calls between sleeps.
FORMS = {
    "count at entry": ("leaf", ("leaf:entry=count",), 0),
    "count at entry and return": ("leaf", ("leaf:entry=count", "leaf:return=count"), 0),
    "stamp at entry": ("leaf", ("leaf:entry=stamp",), BURST),
    "entry and return, recorded": ("leaf", ("leaf:entry=time",), BURST),
    "entry and its arguments, recorded": ("leaf", ("leaf:entry=args",), BURST),
    "count in every block, a call": ("blocks", ("blocks:blocks=count",), 0),
}


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure of gilk."""
    for what, (function, points, burst) in FORMS.items():
        requests = [request for point in points if isinstance(request := gilk.api.parse_request(point), Request)]
        yield least(partial(_per_hit, programs, what, function, requests, burst))
    for count in counts:
        if count in GLOBS:
            yield from _activation(programs, count)


def _per_hit(programs: Programs, what: str, function: str, requests: list[Request], burst: int) -> Row:
    with Hot(programs.hot, function, burst=burst) as hot:
        before = hot.cost()
        with gilk.attach(hot.pid) as target, target.session(ring=16 << 20) as session:
            session.insert_all(requests)
            cost, drops = _while_active(hot, session), session.drain.drops()
            hits = session.records + sum(session.counts().values()) + session.waiting
        note = _trouble(session, hot.status) or ("" if hits else "no hits")
    return Row(what, TOOL, None if note else cost - before, note=note or (f"{drops} drops" if drops else ""))


def _while_active(hot: Hot, session: Session, seconds: float = 1.0) -> float:
    """The ns of a call while probes are in and the buffers are emptied all the time."""
    batches: list[float] = []
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < FIRST + seconds and hot.status is None:
        found = hot.costs(SLICE)
        session.take()
        batches += found if passed > FIRST else []
    return quartile(batches)


def _trouble(session: Session, status: int | None) -> str:
    """The reason not to trust a figure; "" if it can be trusted."""
    if ended := how_it_ended(status):
        return ended
    refused = [probe.refusal for probe in session.probes if probe.tactic is None]
    if refused:
        return f"{len(refused)} refused: {refused[0]}"
    return "" if session.restored else "the code was not restored"


@dataclass(frozen=True)
class Change:
    """The cost of putting counters into many functions, in milliseconds and KiB. ``client`` is the whole memory of
    the client, with Python and the target's keeper; ``target`` is the growth of the target's memory."""

    planned: float
    activated: float
    still: float
    target: float
    client: float
    note: str


def _activation(programs: Programs, count: int) -> Iterator[Row]:
    changes = [_in_process_of_its_own(programs, count) for _ in range(TIMES)]
    note = next((change.note for change in changes if change.note), "")
    best = min(changes, key=lambda change: change.activated)
    failed = bool(note)
    for what, value, unit in (
        (f"activate {count} functions", best.activated, "ms"),
        (f"threads stand still for {count}", best.still, "ms"),
        (f"plan {count} functions", min(change.planned for change in changes), "ms"),
        (f"memory of {count} functions", best.target, "KiB"),
        (f"client's memory for {count}", best.client, "KiB"),
    ):
        yield Row(what, TOOL, None if failed else value, unit, note)
        note = ""


def _in_process_of_its_own(programs: Programs, count: int) -> Change:
    """Measure a change in a new process, so that its memory is what a client of gilk takes, and nothing is cached."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_change, programs, count).result()


def _change(programs: Programs, count: int) -> Change:
    with Many(programs.many) as many:
        before = memory(many.pid)
        with gilk.attach(many.pid) as target, target.session(points=count) as session:
            planned = _insert(target, session, count)
            time.sleep(SETTLE)
            taken = memory(many.pid) - before
            client = memory(os.getpid()) + sum(memory(child) for child in _keepers())
            counted = sum(1 for hits in session.counts().values() if hits)
        note = _trouble(session, many.status) or ("" if counted == count else f"{counted} of them counted")
        totals = session.totals
    return Change(planned, 1e3 * totals.activation, 1e3 * totals.still, taken, client, note)


def _keepers() -> list[int]:
    """The process numbers of the children of this process that are keepers."""
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        pids = [int(pid) for pid in children.read().split()]
    return [pid for pid in pids if _name(pid) == KEEPER]


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().rstrip("\n")


def _insert(target: Target, session: Session, count: int) -> float:
    """Insert counters and return the milliseconds until the plan was ready, without the analysis of the functions
    and the activation."""
    entries = [function.entry for function in target.functions(GLOBS[count])]
    start = time.perf_counter()
    session.insert(entries, gilk.count)
    return 1e3 * (time.perf_counter() - start - session.totals.activation)

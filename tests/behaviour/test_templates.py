# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs timed completely from templates: the same calls as if every probe were planned at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gilk.engines.follow.functions import of_template
from gilk.session import plan_cache
from gilk.session.placed import PlacedTiming, place_timing
from gilk.session.plan_workers import timing_templates
from gilk.session.request import expand, parse
from gilk.session.session import Session
from gilk.targets import process as processes
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.targets.startup import start
from tests.behaviour.harness import plain, redirected
from tests.programs.build import build
from tests.seldom import seldom

SINGLE = ["recursion", "tailcall", "exceptions", "jumptable", "shortblocks", "setjmp"]
#: The number of functions that may lack room: the bytes that they share may be in use, and whether there is a page
#: where their jumps lead depends on the address of the program.
HARD = {"shortblocks": 7, "tailcall": 1, "jumptable": 1}
ROUNDS = "30"
Insert = Callable[[Session, Process], object]
Calls = list[list[tuple[str, str]]]


def timed(program: Path, insert: Insert, rounds: str = ROUNDS) -> tuple[Calls, tuple[int, bytes, bytes]]:
    """The calls and returns of each thread in the program itself, in order, and what a user sees of the run."""
    with redirected() as (out, err):
        process = start([str(program), rounds])
        tables: list[pa.Table] = []
        session = Session(process, points=1 << 18, threads=64, ring=1 << 27)
        insert(session, process)
        process.release()
        while (end := process.wait()) is None:
            tables.append(session.poll())
            time.sleep(0.01)
        tables.append(session.close())
        process.close()
        out.seek(0)
        err.seek(0)
        seen = end.code, out.read(), err.read()
    assert session.drain.drops() == session.drain.lost() == 0
    assert session.restored
    calls: dict[int, list[tuple[str, str]]] = {}
    table = pa.concat_tables(tables, promote_options="default")
    for tid, point, kind in zip(*(table[name].to_pylist() for name in ("tid", "point", "kind")), strict=True):
        if point.startswith(f"{program.name}:"):
            calls.setdefault(tid, []).append((point, kind))
    return list(calls.values()), seen


def of(functions: set[str], calls: Calls) -> Calls:
    return [[call for call in thread if call[0].split(":")[1] in functions] for thread in calls]


def names(made: PlacedTiming) -> set[str]:
    """The names of the functions, and of their parts, that are ready with all their returns."""
    template = made.template
    return {template.unit_names[unit] for unit in np.flatnonzero(made.ready & template.whole()).tolist()}


def live() -> tuple[Insert, set[str]]:
    """An insertion that plans every probe at once, and a set that gets the functions that are timed completely."""
    kept: set[str] = set()

    def insert(session: Session, process: Process) -> None:
        probes = session.insert_wanted(list(expand(process, [parse("*:entry=time")])))  # as traces have them
        refused = {probe.row.function for probe in probes if probe.tactic is None}
        kept.update(probe.row.point.split(":")[1] for probe in probes if probe.row.function not in refused)

    return insert, kept


def placed(session: Session, process: Process, images: list[Loaded], some: Container[str] | None) -> list[PlacedTiming]:
    """Place templates, dormant at first, and then activate them: all functions of the images, or those named in
    ``some``."""
    templates = timing_templates(process, images, session._workspace.shape)
    found = []
    for loaded in images:
        spans = process.image(loaded.path).spans
        starts = {span.start for span in spans if some is None or span.name in some}
        made = place_timing(session._workspace, loaded, templates[loaded.path], len(session._everything), starts)
        assert made is not None
        found.append(made)
        session._ledger.hold(made)
        session._everything += made.rows
    session._know(0.0)
    session._ledger.activate(np.concatenate([of_template(made, set()).keys for made in found]))
    return found


def prepared(everything: bool) -> tuple[Insert, list[list[PlacedTiming]]]:
    """An insertion from the cache: of the program's functions, or also of those of all its libraries."""
    kept: list[list[PlacedTiming]] = []

    def insert(session: Session, process: Process) -> None:
        images = [loaded for loaded in process.loaded() if loaded.main or everything]
        kept.append(placed(session, process, images, None))

    return insert, kept


@pytest.mark.parametrize("name", seldom(SINGLE, 3))
def test_templates_record_the_same_calls_as_probes_planned_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build(name)
    insert, kept = prepared(everything=False)
    planned, had = live()
    expected, plainly = timed(program, planned)[0], plain([program, ROUNDS]).visible
    got, seen = timed(program, insert)
    both = had & names(kept[0][0])
    assert (of(both, got), seen) == (of(both, expected), plainly)

    def forbidden(*_: object) -> None:
        raise AssertionError("an image was analysed, or planned for")

    monkeypatch.setattr(processes, "analyse", forbidden)
    monkeypatch.setattr(plan_cache, "make_timing", forbidden)
    got, seen = timed(program, insert)
    both &= names(kept[1][0])
    assert (of(both, got), seen) == (of(both, expected), plainly), "from what was kept"
    assert len(both) > 5
    assert len((had | names(kept[0][0]) | names(kept[1][0])) - both) <= HARD.get(name, 0), "too many are not ready"


def test_templates_work_for_threads_and_for_a_selection_of_functions() -> None:
    """Both threads run a function of the program; only the chosen functions are timed."""
    program = build("threads")
    plainly = plain([program, ROUNDS]).visible
    chosen: set[str] = set()

    def insert(session: Session, process: Process) -> None:
        (main,) = (loaded for loaded in process.loaded() if loaded.main)
        chosen.update(span.name for span in process.image(main.path).spans[::2])
        (made,) = placed(session, process, [main], chosen)
        assert set(of_template(made, set()).names) <= chosen

    expected = Counter(call for thread in timed(program, live()[0])[0] for call in thread)
    some, seen = timed(program, insert)
    got = Counter(call for thread in some for call in thread)
    assert seen == plainly
    assert len(got) > 4
    assert got.keys() == {call for call in expected if call[0].split(":")[1] in chosen}
    assert sum(n for call, n in got.items() if call[1] == "time-return") > 0


@pytest.mark.stress
@pytest.mark.parametrize("name", ["exceptions", "work", "setjmp"])
def test_templates_work_for_all_libraries_too(name: str) -> None:
    program = build(name)
    insert, kept = prepared(everything=True)
    expected, plainly = timed(program, live()[0])[0], plain([program, ROUNDS]).visible
    got, seen = timed(program, insert)
    assert seen == plainly
    assert len(kept[0]) >= 3
    assert got == of(names(kept[0][0]), expected)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes put in and taken out again and again, in functions that eight threads run all the time."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import gilk
from gilk.analysis.model import Function
from gilk.session import plan_cache
from gilk.session.base import BaseSession
from gilk.session.request import CFunction, Request, parse
from gilk.session.session import Session
from gilk.splice.allocator import OutOfSpace
from gilk.splice.plan import Plan, Want
from gilk.splice.planner import PatchContext
from tests.behaviour.harness import Loop, cpu, differences, leftovers, redirected, wait_for
from tests.programs.build import build
from tests.seldom import seldom

CYCLES = [6, pytest.param(10_000, marks=pytest.mark.stress)]
WAYS = [("hot_asm:blocks", "count"), ("hot_asm:entry", "time"), ("hot_asm:entry", "regs")]


def calls(output: str, function: str) -> int:
    match = re.search(rf"^calls {function} (\d+)$", output, re.MULTILINE)
    assert match
    return int(match[1])


@pytest.mark.parametrize(
    ("where", "instrument", "cycles"),
    seldom([(*way, 3) for way in WAYS], 1)
    + [pytest.param(*way, n, marks=pytest.mark.stress) for way, n in zip(WAYS, (10_000, 1000, 1000), strict=True)],
)
def test_probes_are_toggled_in_functions_that_run_all_the_time(where: str, instrument: str, cycles: int) -> None:
    """A probe that stays, in the function that is toggled, misses no hit and counts none twice.

    Both functions are called once a turn, so the counts of the two probes that stay can differ only by the turns under
    way.
    """
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, target.session(points=1 << 18) as session:
            places = [target.function("hot").entry, *target.function("hot_asm").returns]  # in one stop
            hot, hot_asm = session.insert(places, gilk.count)
            start = time.monotonic()
            for _ in range(cycles):
                session.remove(session.insert(where, instrument))
            print(f"{(time.monotonic() - start) / cycles * 1000:.2f} ms a cycle")
            session.remove((hot, hot_asm))
            counts = session.counts()
        assert session.restored is True
        assert differences(loop.pid) == []
        assert leftovers(loop.pid) == []
    assert counts[hot.row.point] > 0
    assert abs(counts[hot.row.point] - counts[hot_asm.row.point]) <= 16


@pytest.mark.parametrize("cycles", CYCLES)
def test_counts_are_exact_over_the_life_of_a_program(cycles: int) -> None:
    """Counters at hot() and in hot_asm() count from the first call to the last, while others come and go in both."""
    with redirected() as (out, _), input_that_ends() as end, gilk.launch([str(build("hot8")), "loop"]) as target:
        with target.session(points=1 << 18) as session:
            stays = [session.insert(where, gilk.count)[0] for where in ("hot:entry", "hot_asm:entry", "hot_asm:return")]
            target.resume()
            for number in range(cycles):
                if number == cycles - 1:
                    end()  # perhaps in the middle of a change
                with contextlib.suppress(gilk.TargetError) if number == cycles - 1 else contextlib.nullcontext():
                    session.remove(session.insert("hot:blocks", gilk.count))
                    session.remove(session.insert("hot_asm:blocks-post", gilk.count))
            assert wait_for(lambda: target.process.wait(block=False) is not None)
            session.close()
            # session.counts() adds up points of the same name, and a return is also the end of a block
            counts = session.drain.counts()
        out.seek(0)
        output = out.read().decode()
    assert counts[stays[0].row.counter] == calls(output, "hot") > 0
    assert counts[stays[1].row.counter] == calls(output, "hot_asm")
    assert counts[stays[2].row.counter] == calls(output, "hot_asm")
    assert session.drain.lost() == 0


@contextlib.contextmanager
def input_that_ends() -> Iterator[Callable[[], None]]:
    """In the block, launched programs get a standard input that closes when the yielded function is called.

    Another process holds the other end: processes forked from this one would keep it open.
    """
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "infinity"], stdout=write) as holder:
        os.dup2(read, 0)
        os.close(read)
        os.close(write)
        try:
            yield holder.kill
        finally:
            holder.kill()


def test_two_probes_at_one_point_count_separately() -> None:
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        (probe,) = session.insert("hot:entry", gilk.count)
        session.remove([probe])
        before, ticks = session.counts()[probe.row.point], cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks + 10)
        assert session.counts()[probe.row.point] == before


def counts_more(session: BaseSession, point: str, before: int) -> bool:
    return session.counts()[point] > before


def test_a_dormant_probe_counts_only_while_it_is_active() -> None:
    with Loop([build("hot8")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            probes = session.insert("hot:entry", gilk.count, active=False)
            point = probes[0].row.point
            assert differences(loop.pid) == [] and session.counts()[point] == 0
            for _ in range(2):
                before = session.counts()[point]
                session.activate(probes)
                assert wait_for(functools.partial(counts_more, session, point, before))
                session.deactivate(probes)
                assert not [one for one in differences(loop.pid) if "hot8" in one]  # handlers of signals need libc's
            session.activate(probes)
        assert session.restored is True
        assert leftovers(loop.pid) == []


@pytest.mark.parametrize("kept", [False, True], ids=["planned", "from the cache"])
def test_a_change_that_fails_in_the_second_image_frees_the_pages_of_the_first(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages planned for the first image are free for the next change."""
    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    monkeypatch.setattr(plan_cache, "_MANY", 1 if kept else 1 << 30)
    source = tmp_path / "note.c"
    source.write_text("#include <gilk.h>\nvoid note(unsigned iid) { ilk_log_integer_sample(iid, iid); }\n")
    instrument = CFunction(source, "note")
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target, Session(target.process) as session:
        planning = session._ledger.planner.planning

        def fails_in_libc(ground: PatchContext, wanted: Iterable[tuple[Function, list[Want]]]) -> Plan:
            if "libc" in ground.analysis.image.name:
                raise OutOfSpace
            return planning(ground, wanted)

        session._ledger.planner.planning = fails_in_libc
        requests = [parse("*:entry=count"), parse("libc:getenv:blocks=count")]
        if kept:
            requests[0] = Request(requests[0].spec, instrument)
        with pytest.raises(OutOfSpace):
            session.insert_all(requests)
        session._ledger.planner.planning = planning  # the instruments of handlers in libc are tried again now
        assert session.insert("*:entry", requests[0].instrument)
        assert not session.refusals()
        assert sum(session.tactics().values()) > 10
        session.close()
        assert session.restored

# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk run`, `gilk trace`, `gilk dtrace` and sessions from Python share one busy process: each counts as if it were
alone, whatever becomes of the others."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, wait_for
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build
from tests.seldom import seldom
from tests.session.broker.consumers import FUNCTIONS, Worker, consume, count, counting, follow, glance
from tests.session.broker.test_several_consumers import expected, is_clean, play


class Command:
    """`gilk run` on the command line, with the same methods as a Worker."""

    def __init__(self, target: int, functions: tuple[str, ...], place: Path) -> None:
        self._output = place / f"{uuid.uuid4()}.parquet"
        inserts = [word for name in functions for word in ("-i", f"{name}:entry=count")]
        words = [sys.executable, "-m", "gilk", "run", "--json", *inserts, "-p", str(target), "-o", str(self._output)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})

    def wait_until_in(self) -> None:
        """Wait until the output file is begun, which happens once the probes are in."""
        partial = self._output.with_name(self._output.name + ".partial")
        assert wait_for(lambda: partial.exists() or self._process.poll() is not None)
        assert self._process.poll() is None

    def finish(self) -> dict[str, int]:
        self._process.send_signal(signal.SIGTERM)
        told, _ = self._process.communicate(timeout=PATIENCE)
        report = json.loads(told)
        assert report["restored"] is not False, report
        return {point.split(":")[1]: hits for point, hits in report["counts"].items() if hits}

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


FrontEnd = Callable[[int, tuple[str, ...], Path], "Worker | Command"]
FRONT_ENDS: tuple[FrontEnd, ...] = (
    lambda target, functions, _: consume(target, counting(functions)),
    lambda target, functions, _: count(target, functions),
    Command,
    lambda target, functions, _: follow(target, functions),
)


def together(turns: int, place: Path, seed: int, traced: bool) -> None:
    """Let three front ends stay, one of them a trace if ``traced``. In each turn another one comes, and leaves or is
    killed while calls are made. There is only one trace at a time."""
    chance = random.Random(seed)
    staying, coming = (FRONT_ENDS[1:], FRONT_ENDS[:3]) if traced else (FRONT_ENDS[:3], FRONT_ENDS)
    with Loop([build("rounds")]) as loop:
        chosen = [("one", other) for other in FUNCTIONS[1:]]
        stay = [front(loop.pid, functions, place) for front, functions in zip(staying, chosen, strict=True)]
        for each in stay:
            each.wait_until_in()
        for turn in range(turns):
            functions = tuple(chance.sample(FUNCTIONS, chance.randint(1, 4)))
            other = coming[turn % len(coming)](loop.pid, functions, place)
            if chance.random() < 0.7:
                other.wait_until_in()
            play(loop, turn + 1, 1)
            if chance.random() < 0.7:
                other.kill()
            else:
                other.wait_until_in() if isinstance(other, Command) else None
                other.finish()
        assert [each.finish() for each in stay] == [expected(functions, turns) for functions in chosen]
        assert wait_for(lambda: is_clean(loop.pid))


@pytest.mark.stress
@pytest.mark.parametrize("traced", seldom((True, False), 1), ids=["a trace stays", "a trace comes"])
def test_three_front_ends_share_one_process(traced: bool, tmp_path: Path) -> None:
    together(4, tmp_path, 1, traced)


@pytest.mark.stress
@pytest.mark.parametrize("traced", [False, True], ids=["a trace comes", "a trace stays"])
@pytest.mark.parametrize("seed", range(2, 5))
def test_three_front_ends_share_one_process_for_long(seed: int, traced: bool, tmp_path: Path) -> None:
    together(75, tmp_path, seed, traced)


class Busy(threading.Thread):
    """A thread that has a program play rounds, one after the other, until it is told to stop; ``rounds`` is their
    number."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self.over = threading.Event()
        self.rounds = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                play(self._loop, self.rounds + 1, 1)
                self.rounds += 1
        except BaseException as error:
            self.error = error


def visit(target: int, chance: random.Random, place: Path) -> None:
    """Attach a front end to a busy process; it leaves, or is killed at any moment."""
    front = chance.choice((*FRONT_ENDS[:3], lambda pid, _, files: glance(pid, files)))
    place.mkdir()
    visitor = front(target, tuple(chance.sample(FUNCTIONS, chance.randint(1, 4))), place)
    match chance.randrange(4):
        case 0:
            threading.Event().wait(chance.uniform(0, 2))  # the visitor may be anywhere in its work by then
            visitor.kill()
        case 1:
            visitor.wait_until_in()
            visitor.finish()
        case _:
            visitor.wait_until_in()
            visitor.kill()
    shutil.rmtree(place)


def busy(visits: Iterable[int], place: Path, seed: int) -> int:
    """Let three front ends count the calls of a busy process while others come and go. Returns the number of rounds
    that the process has played."""
    chance = random.Random(seed)
    with Loop([build("rounds")]) as loop:
        chosen = [("one", other) for other in FUNCTIONS[1:]]
        stay = [front(loop.pid, functions, place) for front, functions in zip(FRONT_ENDS, chosen, strict=False)]
        for each in stay:
            each.wait_until_in()
        program = Busy(loop)
        program.start()
        try:
            for number in visits:
                visit(loop.pid, chance, place / f"visit-{number}")
                assert program.is_alive(), program.error
        finally:
            program.over.set()
            program.join(PATIENCE)
        assert program.error is None, program.error
        assert [each.finish() for each in stay] == [expected(functions, program.rounds) for functions in chosen]
        assert wait_for(lambda: is_clean(loop.pid)), (differences(loop.pid), leftovers(loop.pid))
    return program.rounds


def test_front_ends_share_a_busy_process(tmp_path: Path) -> None:
    assert busy(range(3), tmp_path, seed=4) > 0


@pytest.mark.stress
@pytest.mark.parametrize("minutes", [10])
def test_front_ends_share_a_busy_process_for_long(minutes: float, tmp_path: Path) -> None:
    end = time.monotonic() + 60 * minutes
    assert busy(itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()), tmp_path, seed=5) > 0


@pytest.mark.parametrize("first", seldom((1, 0, 2, 3), 1))
def test_four_front_ends_share_a_process_whichever_comes_first_and_is_killed_first(first: int, tmp_path: Path) -> None:
    """A trace of all functions, a D program, a session from Python and the command line: each in turn is the first
    that comes, and is killed before the others. Their counts are exact as long as they are there."""
    turns = [*FRONT_ENDS[first:], *FRONT_ENDS[:first]]
    with Loop([build("rounds")]) as loop:
        there = []
        for round_, front in enumerate(turns, 1):
            there.append(front(loop.pid, ("one", "two"), tmp_path))
            there[-1].wait_until_in()
            play(loop, round_, 1)
        there[0].kill()
        play(loop, 5, 1)
        there[2].kill()
        play(loop, 6, 1)
        again = turns[0](loop.pid, ("two", "three"), tmp_path)
        again.wait_until_in()
        play(loop, 7, 1)
        assert there[1].finish() == expected(("one", "two"), 6)
        play(loop, 8, 1)
        assert there[3].finish() == expected(("one", "two"), 5)
        play(loop, 9, 1)
        assert again.finish() == expected(("two", "three"), 3)
        assert wait_for(lambda: is_clean(loop.pid))


def test_a_second_trace_of_a_process_is_refused() -> None:
    with Loop([build("rounds")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("one:entry", gilk.count)
            held = follow(loop.pid, ("one",))
            held.wait_until_in()
            with pytest.raises(gilk.TargetError) as refused:
                gilk.prepare_trace([loop.pid]).begin()
            assert refused.value.slug == "trace-alone"
            play(loop, 1, 1)
            assert held.finish() == expected(("one",), 1)
            play(loop, 2, 1)
            last = follow(loop.pid, ("one", "four"))
            last.wait_until_in()
            play(loop, 3, 1)
        assert session.counts()["rounds:one:entry"] == expected(("one",), 3)["one"]
        play(loop, 4, 1)
        assert last.finish() == expected(("one", "four"), 2)
        assert is_clean(loop.pid)

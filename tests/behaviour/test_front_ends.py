# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk run`, `gilk dtrace` and sessions from Python in one busy process: each counts as if it were alone, whatever
becomes of the others."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import ENVIRONMENT, Loop, wait_for
from tests.programs.build import build
from tests.session.broker.consumers import FUNCTIONS, Worker, consume, count, counting
from tests.session.broker.test_several_consumers import expected, is_clean, play


class Command:
    """`gilk run` on the command line; as a Worker is."""

    def __init__(self, target: int, functions: tuple[str, ...], place: Path) -> None:
        self._output = place / f"{uuid.uuid4()}.parquet"
        inserts = [word for name in functions for word in ("-i", f"{name}:entry=count")]
        words = [sys.executable, "-m", "gilk", "run", "--json", *inserts, "-p", str(target), "-o", str(self._output)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})

    def wait_until_in(self) -> None:
        """The file is begun when the probes are in."""
        partial = self._output.with_name(self._output.name + ".partial")
        assert wait_for(lambda: partial.exists() or self._process.poll() is not None, 120)
        assert self._process.poll() is None

    def finish(self) -> dict[str, int]:
        self._process.send_signal(signal.SIGTERM)
        told, _ = self._process.communicate(timeout=120)
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
)


def together(turns: int, place: Path, seed: int) -> None:
    """Three stay; in each turn another comes, and leaves or is killed while calls are made."""
    chance = random.Random(seed)
    with Loop([build("rounds")]) as loop:
        chosen = [("one", other) for other in FUNCTIONS[1:]]
        stay = [front(loop.pid, functions, place) for front, functions in zip(FRONT_ENDS, chosen, strict=True)]
        for each in stay:
            each.wait_until_in()
        for turn in range(turns):
            functions = tuple(chance.sample(FUNCTIONS, chance.randint(1, 4)))
            other = FRONT_ENDS[turn % 3](loop.pid, functions, place)
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


def test_three_front_ends_at_once(tmp_path: Path) -> None:
    together(4, tmp_path, seed=1)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(2, 5))
def test_three_front_ends_for_long(seed: int, tmp_path: Path) -> None:
    together(150, tmp_path, seed)


def test_a_trace_has_a_process_to_itself() -> None:
    with Loop([build("rounds")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("one:entry", gilk.count)
            with pytest.raises(gilk.TargetError) as refused:
                gilk.prepare_trace([loop.pid])
            assert refused.value.slug == "trace-alone"
            play(loop, 1, 1)
        assert session.counts()["rounds:one:entry"] == expected(("one",), 1)["one"]

        (held,) = gilk.prepare_trace([loop.pid]).processes
        with gilk.attach(loop.pid) as target, pytest.raises(gilk.TargetError) as refused:
            target.session()
        assert refused.value.slug == "trace-alone"
        held.close()

        with gilk.attach(loop.pid) as target, target.session() as session:
            session.insert("one:entry", gilk.count)
            play(loop, 2, 1)
        assert session.counts()["rounds:one:entry"] == expected(("one",), 1)["one"]
        assert session.restored is True and is_clean(loop.pid)

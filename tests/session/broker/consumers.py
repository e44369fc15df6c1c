# SPDX-License-Identifier: LGPL-2.1-or-later
"""Consumers of a broker in processes of their own, which are forked from this one for a quick start, and can be
killed."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow.parquet as pq

import gilk
from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.engines.follow.tracing import Tracing
from gilk.runs.outcome import Result
from gilk.runs.progress import Progress

CALLS, THREADS = 2000, 8  # of rounds.c, in a round
FUNCTIONS = ("one", "two", "three", "four")


def counting(functions: tuple[str, ...], where: str = "entry") -> str:
    probes = ", ".join(f"pid$target:a.out:{name}:{where}" for name in functions)
    return probes + " { @[probefunc] = count(); }"


@dataclass
class Worker:
    """A consumer that says ``in`` once its probes are in, ends when it is told to, and then says what it counted."""

    pid: int
    told: IO[str]
    tell: IO[str]

    def wait_until_in(self) -> None:
        line = self.told.readline()
        assert line == "in\n", line + self.told.read()

    def finish(self) -> dict[str, int]:
        self.tell.write("end")  # closing does not suffice: consumers forked later have the pipe open too
        self.tell.close()
        text = ""
        while not text.endswith("out\n"):
            line = self.told.readline()
            assert line, text
            text += line
        self._end()
        return {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", text, re.M)}

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.tell.close()
        self._end()

    def _end(self) -> None:
        self.told.close()
        os.waitpid(self.pid, 0)


def consume(target: int, text: str) -> Worker:
    """A consumer that runs a D program."""
    return _forked(lambda out, hear: _be_consumer(target, text, out, hear))


def count(target: int, functions: tuple[str, ...]) -> Worker:
    """A session from Python that counts entries."""
    return _forked(lambda out, hear: _be_session(target, functions, out, hear))


def follow(target: int, functions: tuple[str, ...]) -> Worker:
    """A trace of all functions of the program and its libraries, which counts the calls of some of them."""
    return _forked(lambda out, hear: _be_trace(target, functions, out, hear))


def glance(target: int, place: Path) -> Worker:
    """A trace of a program that may make any number of calls, whose records are not looked at; its files are in
    ``place``."""
    return _forked(lambda out, hear: _be_glance(target, place, out, hear))


def _forked(work: Callable[[IO[str], int], None]) -> Worker:
    told, say = os.pipe()
    hear, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(say)
        os.close(hear)
        return Worker(pid, os.fdopen(told), os.fdopen(tell, "w"))
    try:
        os.close(told)
        os.close(tell)
        with os.fdopen(say, "w", buffering=1) as out:
            try:
                work(out, hear)
            except BaseException:
                out.write(traceback.format_exc())
    finally:
        os._exit(0)


def _be_consumer(target: int, text: str, out: IO[str], hear: int) -> None:
    consumer = prepare(Asked((("n", text),), pid=target))
    try:
        consumer.compile()
        refused = consumer.start()
        assert not refused, refused
        out.write("in\n")
        os.read(hear, 1)
        for happening in consumer.happenings(lambda: True):
            sys.stderr.write(str(happening))
        assert consumer.restored is not False, "could not be compared"
        for (_, key), cells in consumer.tracing.aggregations.snapshot().items():
            out.write(f"{key.partition(bytes(1))[0].decode()} {cells[0]}\n")
        out.write("out\n")
    finally:
        let_go(consumer)


def _traced(tracing: Tracing, out: IO[str], hear: int) -> Result:
    """Begin a trace, and return its result when it was told to end."""
    over, told = select.poll(), []
    over.register(hear, select.POLLIN)

    def show(progress: Progress) -> None:
        if progress.what == "following" and not told:
            told.append(out.write("in\n"))

    tracing.begin()
    tracing.wait(None, lambda: bool(over.poll(0)), show)
    return tracing.finish()


def _be_glance(target: int, place: Path, out: IO[str], hear: int) -> None:
    result = _traced(gilk.prepare_trace([target], output=place / "trace.parquet"), out, hear)
    assert result.restored is not False, result.notes
    out.write("out\n")


def _be_trace(target: int, functions: tuple[str, ...], out: IO[str], hear: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        tracing = gilk.prepare_trace([target], output=Path(place) / "trace.parquet", everything=True)
        result = _traced(tracing, out, hear)
        assert result.restored is not False and not result.partial, result.notes
        assert not any(result.lost.values()), result.lost
        assert not {one.function for one in tracing.unfollowed}.intersection(functions), tracing.unfollowed
        table = pq.read_table(Path(place) / "trace.parquet", columns=["function", "kind"])
    met = Counter(zip(table["function"].to_pylist(), table["kind"].to_pylist(), strict=True))
    for name in functions:
        entries, returns = met[name, "time-entry"], met[name, "time-return"]
        assert entries == returns, (name, entries, returns)
        out.write(f"{name} {entries}\n" if entries else "")
    out.write("out\n")


def _be_session(target: int, functions: tuple[str, ...], out: IO[str], hear: int) -> None:
    with gilk.attach(target) as held, held.session() as session:
        for name in functions:
            (probe,) = session.insert(f"{name}:entry", "count")
            assert probe.tactic is not None, probe
        out.write("in\n")
        os.read(hear, 1)
    assert session.restored is not False, "could not be compared"
    for point, hits in session.counts().items():
        out.write(f"{point.split(':')[1]} {hits}\n")
    out.write("out\n")

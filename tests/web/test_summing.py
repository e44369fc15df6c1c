# SPDX-License-Identifier: LGPL-2.1-or-later
"""The end of a session: everything is out at once, and the summing up may take its time, or be left out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gilk.trace.reading import read
from gilk.web import children
from gilk.web.children import Children, ServerChild, ToldError
from gilk.web.frames import ServerChannel
from gilk.web.grants import Grants
from gilk.web.sessions import Sessions, WebSession
from gilk.web.starting import OwnStarting
from gilk.web.summing import LeftOutError, SummingUp
from tests.behaviour.harness import Loop, differences, leftovers
from tests.web.served import PATIENCE
from tests.web.spoken import Child, birth_of, spoken_to

Json = dict[str, Any]


@contextmanager
def tracing(loop: Loop, file: Path) -> Iterator[Child]:
    """A child that traces a function of the loop, and has been told to end as soon as there are records."""
    with spoken_to("trace_host", Grants(pids=frozenset((loop.pid,)), traces=file.parent)) as child:
        given = {"start": "now", "stop": "exit", "scope": ["work:dispatch"], "skip": [], "depth": 0}
        given |= {"everything": True, "file": str(file), "processes": {str(loop.pid): birth_of(loop.pid)}}
        child.channel.send({"id": 1, "ask": "begin", "given": given})
        while not child.state("records")["records"]:
            pass
        child.leave()
        yield child
        assert child.process.wait(PATIENCE) == 0


def states_in(file: Path) -> dict[str, int]:
    """The calls in a file by their state, counted in the whole file at once."""
    return {str(state): number for state, number in read(file).flow.states.items() if number}


def test_everything_is_out_before_the_calls_are_counted(loop: Loop, tmp_path: Path) -> None:
    with tracing(loop, tmp_path / "a.parquet") as child:
        assert child.state("out")["out"] == {"restored": True}
        os.kill(child.process.pid, 19)  # SIGSTOP: whatever it does from now on, it has not done it yet
        assert not differences(loop.pid)
        os.kill(child.process.pid, 18)
        report = child.state("report")["report"]
        assert report["restored"] is True and report["kept"]
        assert {name: n for name, n in report["trace"]["states"].items() if n} == states_in(tmp_path / "a.parquet")
    assert not leftovers(loop.pid)


@pytest.mark.stress
def test_the_file_is_complete_when_nobody_wants_the_report(loop: Loop, tmp_path: Path) -> None:
    with tracing(loop, tmp_path / "b.parquet") as child:
        assert child.state("out")["out"] == {"restored": True}
        child.hang_up()  # the server has ended: there is nobody to report to
    assert states_in(tmp_path / "b.parquet")["whole"] > 0 and not leftovers(loop.pid)


SCRIPT = """
import json, os, struct, sys
def tell(state):
    text = json.dumps({"state": state}).encode()
    os.write(int(sys.argv[2]), struct.pack("<I", len(text)) + text)
assert not os.read(int(sys.argv[1]), 1)  # the end of the input
if sys.argv[3] == "out":
    tell({"out": {"restored": True}})
os.read(0, 1)
tell({"report": {"restored": True}})
"""


@pytest.mark.parametrize("what", ["out", "stays"])
def test_only_the_taking_out_has_to_be_done_within_a_time(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A child that has told that everything is out is not killed at the end of the time for it, and one that has not
    is."""
    monkeypatch.setattr(children, "_OUT_WITHIN", 60.0 if what == "out" else 0.0)

    async def left() -> list[Json]:
        told: list[Json] = []
        child, go_on = await _scripted(what, told)
        if what == "out":
            leaving = asyncio.create_task(child.leave())
            while not told:
                await asyncio.sleep(0)
            monkeypatch.setattr(children, "_OUT_WITHIN", 0.0)  # the time is over from now on
            os.write(go_on, b"x")
            await leaving
        else:
            await child.leave()
        assert child.watching is not None
        await child.watching
        os.close(go_on)
        return told

    assert asyncio.run(left()) == (
        [{"out": {"restored": True}}, {"report": {"restored": True}}] if what == "out" else []
    )


async def _scripted(what: str, told: list[Json]) -> tuple[ServerChild, int]:
    """A child that runs SCRIPT, and a descriptor by which it is let go on."""
    (theirs_in, ours_out), (ours_in, theirs_out), (waits, go_on) = os.pipe(), os.pipe(), os.pipe()
    words = (sys.executable, "-c", SCRIPT, str(theirs_in), str(theirs_out), what)
    process = await asyncio.create_subprocess_exec(*words, stdin=waits, pass_fds=(theirs_in, theirs_out))
    for each in (theirs_in, theirs_out, waits):
        os.close(each)
    child = ServerChild(process, await children._writer(ours_out))
    reading = asyncio.create_task(children._read(child, await children._reader(ours_in), told.append))
    child.watching = asyncio.create_task(children._watch(child, reading, lambda: None))
    return child, go_on


class Leaving:
    """A child that tells what a test has it tell. ``times``: how often it was told to do without a report."""

    def __init__(self, session: WebSession) -> None:
        self._session = session
        self.times = 0

    async def leave(self) -> None:
        self._session.told({"out": {"restored": False}, "summing": {"what": "closing the file", "filed": False}})

    async def leave_out(self) -> None:
        self.times += 1
        self._session.gone()


def test_a_report_is_left_out_once_the_file_is_complete() -> None:
    async def left() -> None:
        sessions, session = Sessions(Children(OwnStarting(Grants()))), WebSession(1, "pid-1-1", "", (), "", "", 0.0)
        session.child = child = Leaving(session)
        session.state = {"trace": {}}
        with pytest.raises(ToldError, match="the session goes on"):
            await sessions.leave_out(session)
        await sessions.end(session)
        leaving = asyncio.create_task(sessions.leave_out(session))
        for _ in range(5):
            await asyncio.sleep(0)
        assert child.times == 0, "its file is being closed"
        session.told({"summing": {"what": "counting", "filed": True}})
        await leaving
        assert child.times == 1 and session.state["report"] is None
        assert (session.restored, session.end) == (False, "you ended it")

    asyncio.run(left())


def test_summing_up_goes_on_without_a_server_only_until_the_file_is_complete() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    summing = SummingUp(ServerChannel(-1, writing))
    summing.out(restored=True)
    summing.tell("closing the file", False)
    with pytest.raises(LeftOutError):
        summing.read(1, 2)
    os.close(writing)

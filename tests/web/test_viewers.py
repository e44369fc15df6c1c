# SPDX-License-Identifier: LGPL-2.1-or-later
"""Eight browsers look at one busy session, one of them stopped: the others are not disturbed, the server's memory stays
as it is, and the stopped one is shown the present state when it goes on."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from gilk.web.following import line_of, lines
from gilk.web.kept_output import KeptOutput
from gilk.web.sessions import WebSession
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.web.served import PATIENCE, Asking, Served, served

VIEWERS = 8
GROWTH = 16 << 10  # kB; eight states and what the allocator keeps are far less


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid)) as found:
        yield found


@pytest.fixture(scope="module")
def asking(window: Served) -> Asking:
    return Asking(window)


class Viewer:
    """A browser's part in a connection. ``updates``: how many it was sent and has confirmed; ``hits``: the last."""

    def __init__(self, asking: Asking, session: int, connection: ClientConnection) -> None:
        self._connection = connection
        self.updates, self.hits = 0, 0
        connection.send(json.dumps({"token": asking.token, "session": session}))

    def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._connection.recv(timeout=PATIENCE))
        self.hits = found.get("hits", self.hits)
        return found

    def confirm(self) -> None:
        self._connection.send('{"got":1}')
        self.updates += 1

    def look(self, updates: int) -> None:
        while self.updates < updates:
            self.receive()
            self.confirm()


def memory(pid: int) -> int:
    """The resident memory of a process in kB."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def looked(viewers: list[Viewer], updates: int) -> None:
    """Have all viewers look, at the same time, until each has had so many updates. None may wait for another."""
    threads = [threading.Thread(target=each.look, args=(updates,)) for each in viewers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.updates for each in viewers] == [updates] * len(viewers)


def followed(asking: Asking, number: int, follow: str = "?follow=1") -> HTTPResponse:
    """The answer with the lines of a session. Nothing of it has been read."""
    connection = HTTPConnection("127.0.0.1", asking.window.port, timeout=PATIENCE)
    connection.request("GET", f"/session/{number}.ndjson{follow}", headers={"Authorization": f"Bearer {asking.token}"})
    return connection.getresponse()


@pytest.mark.stress
def test_lines_go_on_until_the_session_is_over(loop: Loop, window: Served, asking: Asking) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["*:blocks=count"])
    number = begun["number"]
    answer = followed(asking, number)
    assert answer.headers.get_content_type() == "application/x-ndjson"
    first = json.loads(answer.readline())
    assert first["number"] == number and json.loads(followed(asking, number, "").read())["number"] == number
    assert wait_for(lambda: bool(json.loads(answer.readline()).get("counts")))
    before = memory(window.process.pid)
    for _ in range(30):
        answer.readline()
    assert memory(window.process.pid) - before < GROWTH
    over = asking.post("/session/end", session=number)
    *_, last = (json.loads(line) for line in answer)
    assert last["report"]["restored"] is True and last["counts"] == over["report"]["counts"]


def test_a_line_that_is_asked_for_late_has_the_present_state() -> None:
    async def looked() -> list[dict[str, Any]]:
        session = WebSession(1, "x", "x", (), "", "", 0.0)
        asked = lines(session, True)
        found = [json.loads(await anext(asked))]
        for hits in range(1000):
            session.told({"hits": hits})
        found.append(json.loads(await anext(asked)))
        session.told({"hits": 1000, "report": {}})
        session.gone()
        return [*found, *[json.loads(line) async for line in asked]]

    found = asyncio.run(looked())
    assert [one.get("hits") for one in found] == [None, 999, 1000], "it is sent the present state, and no history"


def test_lines_have_what_was_printed_once(loop: Loop, asking: Asking) -> None:
    text = 'tick-20hz { printf("é%d ", ++n); } tick-20hz /n == 25/ { exit(0); }'
    begun = asking.post("/session/d", target=asking.target(loop.pid), text=text)
    printed = "".join(json.loads(line)["printed"] for line in followed(asking, begun["number"]))
    assert [word for word in printed.split() if word.startswith("é")] == [f"é{n}" for n in range(1, 26)]


def test_letters_that_are_kept_no_more_are_counted() -> None:
    kept = KeptOutput()
    for part in (b"a" * 10, "é".encode()[:1], "é".encode()[1:], b"b" * 20_000):
        kept.take(part)
    found = line_of(kept.to_json(), 5)
    assert found["letters"] == 20_011 and found["missed"] == 20_006 - len(found["printed"])
    assert line_of(kept.to_json(), 20_001)["printed"] == "b" * 10
    assert line_of(kept.to_json(), 20_011)["printed"] == ""


@pytest.mark.parametrize(
    "updates",
    [50, pytest.param(6000, marks=[pytest.mark.stress, pytest.mark.timeout(3600)], id="ten-minutes")],
)
def test_a_stopped_viewer_disturbs_nobody(loop: Loop, window: Served, asking: Asking, updates: int) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["dispatch:blocks=count"])
    with ExitStack() as stack:
        *others, stopped = (Viewer(asking, begun["number"], stack.enter_context(asking.live())) for _ in range(VIEWERS))
        first = stopped.receive()  # and it does not confirm that
        looked(others, 20)
        before = memory(window.process.pid)
        looked(others, 20 + updates)
        assert memory(window.process.pid) - before < GROWTH
        least = min(each.hits for each in others)
        stopped.confirm()
        news = stopped.receive()
        assert news["hits"] >= least > first.get("hits", 0), "it is sent the present state, and no history"
        assert wait_for(lambda: bool(differences(loop.pid)))
        over = asking.post("/session/end", session=begun["number"])
        assert over["report"]["restored"] is True
    assert wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))

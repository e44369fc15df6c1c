# SPDX-License-Identifier: LGPL-2.1-or-later
"""While figures of a session change, its page leaves a reader alone: the focus, selected text, scroll positions and
opened parts stay.

The test is the server of the updates, so that each shows what it likes, and none is left out on a busy machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.behaviour.harness import Loop
from tests.web.served import Served, served
from tests.web.windows import browser, context, opened, page

__all__ = ["browser", "context", "page"]  # fixtures

KEPT = 9000  # letters of the output, of which there are more after some hundred updates
POINTS = ("work:dispatch:entry", "work:ackermann:entry", "work:main:entry")


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid)) as found:
        yield found


def output(updates: int) -> str:
    """All that was printed until then; each update adds a line."""
    return "".join(f"line {n:04} of the output\n" for n in range(100 + updates))


def state(updates: int) -> dict[str, Any]:
    """The state of a session after so many updates. Its points are in another order after each."""
    text = output(updates)
    counts = {point: 10_000 + 7 * (updates + at) % 11 for at, point in enumerate(POINTS)}
    times = [{"seconds": second, "more": [[4, 2 + second]]} for second in range(updates, updates + 3)]
    bucket = {"value": 4, "count": 9 + updates, "bucket": "4"}
    row = {"keys": ["k"], "values": [{"distribution": [bucket]}], "times": times}
    costs = [
        {"point": point, "instrument": "count", "hits": hits, "each_ns": 5.0, "ns": hits * 5}
        for point, hits in counts.items()
    ]
    return {
        "number": 7, "target": "pid-1-1", "title": "work", "requests": ["dispatch:entry=count"], "command": "gilk run",
        "python": "", "end": "", "seconds": float(updates), "hits": updates, "drops": 0, "counts": counts,
        "latency": {"f": {"calls": 9 + updates, "p50": 3, "p90": 3, "p99": 3, "octaves": [0, 4, 5 + updates]}},
        "printed": text[-KEPT:], "bytes": len(text), "trace": {"id": "file-x", "name": "x.parquet"},
        "cost": {"points": costs, "unknown": 0, "ns": 5 * updates, "share": 0.01}, "summing": {"filed": {"kept": True}},
        "aggregations": [{"name": "q", "function": "quantize", "left_out": 0, "rows": [row]}],
    }  # fmt: skip


class Updates:
    """The server's part in the page's connection: the next update is sent when the last one has been confirmed."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._wanted, self._sent = 0, -1
        self._socket: WebSocketRoute | None = None
        page.route("**/session/7.json", lambda route: route.fulfill(json=state(0)))
        page.route_web_socket("**/live", self._connected)

    def _connected(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.on_message(lambda _: self._next())

    def _next(self) -> None:
        if self._sent < self._wanted and self._socket is not None:
            self._sent += 1
            self._socket.send(json.dumps(state(self._sent)))

    def go_on(self, updates: int) -> None:
        """Send so many updates more, and wait until the page shows the last."""
        self._wanted += updates
        self._next()
        expect(self._page.locator("dl.facts").first).to_contain_text(f"time{self._wanted}.0 s")


SELECT = """cell => { const range = document.createRange(); range.selectNodeContents(cell);
    getSelection().removeAllRanges(); getSelection().addRange(range); }"""
SELECTED = "getSelection().toString()"
LINE = "line 0290 of the output"
#: How far below the top of the output a line stands, in pixels.
PLACE = """(pre, text) => { const range = document.createRange();
    range.selectNode([...pre.childNodes].find(each => each.data === text));
    return range.getBoundingClientRect().top - pre.getBoundingClientRect().top; }"""


def test_updates_leave_the_reader_alone(page: Page, window: Served) -> None:
    updates = Updates(page)
    opened(page, window, "/session/7")
    printed = page.get_by_label("Output of the program")
    summary = page.get_by_text("What the probes cost")
    cell = page.get_by_role("table", name="Hits of each point").get_by_role("cell", name=POINTS[1])
    updates.go_on(1)
    summary.click()
    expect(summary).to_be_focused()
    cell.evaluate(SELECT)
    printed.evaluate("pre => { pre.scrollTop = 150; }")
    updates.go_on(200)
    expect(summary).to_be_focused()
    expect(page.get_by_role("table", name="Cost of each point")).to_be_visible()
    assert page.evaluate(SELECTED) == POINTS[1]
    assert printed.evaluate("pre => pre.scrollTop") == 150
    link = page.get_by_role("link", name="Time line")
    hits = page.get_by_role("row", name=POINTS[0]).get_by_role("cell").nth(1)
    link.focus()
    hits.evaluate(SELECT)
    printed.evaluate("pre => { pre.scrollTop = 5000; }")
    place = printed.evaluate(PLACE, LINE)
    updates.go_on(200)
    expect(link).to_be_focused()
    assert page.evaluate(SELECTED) == hits.inner_text() != ""
    expect(page.get_by_text("Only the end is shown.")).to_be_visible()
    assert printed.inner_text() == output(401)[-KEPT:]
    assert printed.evaluate(PLACE, LINE) == place


def test_a_reader_at_the_end_of_the_output_stays_there(page: Page, window: Served) -> None:
    updates = Updates(page)
    opened(page, window, "/session/7")
    updates.go_on(1)
    printed = page.get_by_label("Output of the program")
    printed.evaluate("pre => { pre.scrollTop = pre.scrollHeight; }")
    for _ in range(2):
        updates.go_on(20)
        assert printed.evaluate("pre => pre.scrollHeight - pre.clientHeight - pre.scrollTop") < 2


def test_counts_are_sorted_again_once_nothing_of_them_is_selected(page: Page, window: Served) -> None:
    updates = Updates(page)
    opened(page, window, "/session/7")
    updates.go_on(1)
    names = page.get_by_role("table", name="Hits of each point").locator("tbody tr td:first-child")
    before = names.all_inner_texts()
    names.first.evaluate(SELECT)
    updates.go_on(3)
    assert names.all_inner_texts() == before
    page.evaluate("getSelection().removeAllRanges()")
    updates.go_on(1)
    counts = state(5)["counts"]
    assert names.all_inner_texts() == sorted(POINTS, key=lambda point: -counts[point])

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Records that were dropped are loud, with their share of all, and times are said to be those of the calls that were
recorded. The test answers in place of the server: what a machine drops is not for a test to choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from gilk.web.dropping import kept_records
from tests.behaviour.harness import Loop
from tests.web.served import Served, served
from tests.web.windows import browser, context, narrow, opened, page, suits

__all__ = ["browser", "context", "page"]  # fixtures


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid)) as found:
        yield found


def shown(page: Page, window: Served, drops: int) -> Page:
    """The page of a session that times calls, of whose records so many were dropped, and 5400 were not."""
    calls = {"calls": 2700, "p50": 3, "p90": 3, "p99": 3, "octaves": [0, 4, 5]}
    state: dict[str, Any] = {
        "number": 7, "target": "pid-1-1", "title": "work", "requests": ["f:entry=time"], "command": "gilk run",
        "python": "", "end": "", "seconds": 1.0, "hits": 5400 + drops, "records": 5400, "drops": drops,
        "counts": {"work:f:entry": 1}, "latency": {"f": calls},
    }  # fmt: skip
    status = {"sessions": 1, "drops": drops, "records": 5400, "unknown": 1, "probes": 0, "processor": 1.0, "at": 1.0}
    page.route("**/session/7.json", lambda route: route.fulfill(json=state))
    page.route("**/status.json", lambda route: route.fulfill(json=status))
    page.route_web_socket("**/live", lambda _: None)
    return opened(page, window, "/session/7")


def test_drops_are_loud(page: Page, window: Served) -> None:
    shown(page, window, 4600)
    expect(page.locator("dl.facts .loud")).to_have_text("4\u202f600 (46 % of all)")
    expect(page.locator("#top .status .loud")).to_have_text("4\u202f600 (46 % of all)")
    expect(page.get_by_text("Records were dropped")).to_contain_text("Hits are all there.")
    caption = page.locator("figcaption")
    expect(caption).to_contain_text(
        "f 2\u202f700 calls that were recorded; others were dropped. Of the recorded ones half"
    )
    color = page.locator("dl.facts .loud").evaluate("each => getComputedStyle(each).color")
    assert color != page.locator("dl.facts dd").first.evaluate("each => getComputedStyle(each).color")
    suits(page, "dropped records")
    narrow(page, "dropped records")


def test_nothing_is_loud_without_drops(page: Page, window: Served) -> None:
    shown(page, window, 0)
    expect(page.locator("figcaption")).to_contain_text("f 2\u202f700 calls: half")
    expect(page.locator("#top .status")).to_have_text("1 session, 0 dropped")
    expect(page.locator(".loud")).to_have_count(0)
    expect(page.get_by_text("Records were dropped")).to_have_count(0)


def test_a_share_is_told_only_if_all_records_are_known() -> None:
    assert kept_records([{"records": 5, "drops": 1}, {"drops": 0}, {}]) == 5
    assert kept_records([{"records": 5}, {"drops": 2}]) is None

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A page says that its server does not answer, or has gone, and that it answers again."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.behaviour.harness import Loop
from tests.web.served import Asking, Served, clean, served
from tests.web.windows import browser, narrow, opened, ready, suits

__all__ = ["browser"]  # fixtures
REQUESTS = ["dispatch:entry=count"]


@pytest.fixture
def window(loop: Loop, tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, "--pid", str(loop.pid)) as found:
        yield found


@pytest.fixture
def page(browser: Browser, window: Served, loop: Loop) -> Iterator[Page]:
    """The page of a session that counts. The browser may write to its console that the server has gone."""
    page = browser.new_page()
    page.goto(window.address)
    ready(page)
    asking = Asking(window, str(page.evaluate("sessionStorage.getItem('gilk-token')")))
    begun = asking.post("/session", target=asking.target(loop.pid), requests=REQUESTS)
    opened(page, window, f"/session/{begun['number']}")
    expect(page.get_by_role("table", name="Hits of each point")).to_be_visible()
    yield page
    page.close()


def test_a_page_says_that_its_server_stands_still(page: Page, window: Served) -> None:
    said, facts = page.locator("#answers"), page.locator("dl.facts")
    window.process.send_signal(signal.SIGSTOP)
    expect(said).to_contain_text("gilk web has not answered since")
    shown = facts.inner_text()
    suits(page, "no answer")
    narrow(page, "no answer")
    window.process.send_signal(signal.SIGCONT)
    expect(said).to_contain_text("gilk web answers again")
    expect(facts).not_to_have_text(shown, use_inner_text=True)
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("link", name="1: work")).to_be_visible()
    expect(said).to_be_empty()


def test_a_page_says_that_its_server_has_gone(page: Page, window: Served, loop: Loop, tmp_path: Path) -> None:
    said = page.locator("#answers")
    window.process.kill()
    expect(said).to_contain_text("gilk web cannot be reached since")
    words = said.inner_text()
    for _ in range(2):
        with page.expect_event("requestfailed"):
            pass
    assert said.inner_text() == words, "it stays"
    page.get_by_role("link", name="Traces").click()
    expect(page.get_by_role("alert")).to_contain_text("the server does not answer")
    expect(said).to_have_text(words)
    assert clean(loop)
    with served(tmp_path, "--pid", str(loop.pid), "--port", str(window.port)):
        expect(said).to_contain_text("gilk web was started anew")


def test_a_page_connects_again(page: Page, window: Served) -> None:
    """The server goes on, but the first connection of the page ends after some updates, as it does with a tunnel."""
    connections: list[WebSocketRoute] = []

    def connected(socket: WebSocketRoute) -> None:
        connections.append(socket)
        server = socket.connect_to_server()
        updates = itertools.count()

        def passed_on(update: str | bytes) -> None:
            socket.send(update)
            if len(connections) == 1 and next(updates) == 2:
                socket.close(code=1012)

        server.on_message(passed_on)

    page.route_web_socket("**/live", connected)
    page.reload()
    ready(page)
    facts = page.locator("dl.facts")
    while len(connections) < 2:
        expect(facts).not_to_have_text(facts.inner_text(), use_inner_text=True)
    expect(facts).not_to_have_text(facts.inner_text(), use_inner_text=True)
    expect(page.locator("#answers")).not_to_contain_text("reached")

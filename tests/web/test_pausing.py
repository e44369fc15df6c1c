# SPDX-License-Identifier: LGPL-2.1-or-later
"""A paused session: its probes are out of the code, and its counts stand, until it goes on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.behaviour.harness import Loop, differences, wait_for
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

LATER = {"request": "text_hash:entry=count", "start": 0, "stop": 3600}


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid)) as found:
        yield found


def test_a_paused_session_counts_nothing_and_goes_on(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    requests = ["dispatch:entry=count", "ackermann:entry=time", LATER]
    begun = asking.post("/session", target=asking.target(loop.pid), requests=requests)
    address = f"/session/{begun['number']}.json"

    def now() -> dict[str, Any]:
        found: dict[str, Any] = asking.get(address)
        return found

    def counted() -> int:
        return int(sum(now().get("counts", {}).values()))

    assert wait_for(lambda: counted() > 0) and differences(loop.pid)
    opened(page, window, f"/session/{begun['number']}")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("no probe fires, until Resume")).to_be_visible()
    assert not differences(loop.pid)
    then = now()["seconds"]
    assert wait_for(lambda: now()["seconds"] > then)  # a state that is certainly later
    paused = now()
    assert paused["paused"] and paused["latency"]["ackermann"]["calls"] > 0 and paused["end"] == ""
    assert wait_for(lambda: now()["seconds"] > paused["seconds"] + 0.3)
    assert now()["counts"] == paused["counts"]
    expect(page.get_by_role("table", name="Hits of each point")).not_to_contain_text("/s")
    suits(page, "a paused session")
    narrow(page, "a paused session")
    page.get_by_role("button", name="Resume", exact=True).click()
    assert wait_for(lambda: counted() > sum(paused["counts"].values())) and differences(loop.pid)
    bars = page.locator("svg.bars g:has(.actual)")
    expect(bars).to_have_count(3)
    for bar in bars.all():  # before and after the pause
        expect(bar.locator(".actual")).to_have_count(2)
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("heading", name="It is over")).to_be_visible()
    over = now()
    assert over["report"]["restored"] is True and not differences(loop.pid)
    (pause,) = over["stages"]["pauses"]
    assert over["stages"]["began"] < pause[0] < pause[1]
    assert [one["what"] for one in window.audited()][-3:] == ["pause", "resume", "end"]


@pytest.mark.stress
def test_a_session_that_ends_while_it_is_paused(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    """Its bars end where the pause begins, and it is paused no more."""
    soon = {"request": "dispatch:entry=count", "start": 0.01, "stop": None}
    begun = asking.post("/session", target=asking.target(loop.pid), requests=[soon])
    address = f"/session/{begun['number']}.json"
    assert wait_for(lambda: sum(asking.get(address).get("counts", {}).values()) > 0)
    paused = asking.post("/session/pause", session=begun["number"], paused=True)
    assert paused["paused"] is True
    assert wait_for(lambda: asking.get(address)["seconds"] > max(1, 2 * paused["seconds"]))
    over = asking.post("/session/end", session=begun["number"])
    assert over["report"]["restored"] is True and not differences(loop.pid)
    ((_, until),) = over["stages"]["pauses"]
    assert until is None
    opened(page, window, f"/session/{begun['number']}")
    # A bar has no box while the page draws it anew.
    bars = [page.locator(f"svg.bars .{kind}") for kind in ("actual", "planned")]
    assert wait_for(lambda: all(bar.bounding_box() for bar in bars))
    actual, planned = (bar.bounding_box() for bar in bars)
    assert actual and planned
    assert actual["width"] < planned["width"] / 2  # up to the end it would be four fifths
    refused = asking.post("/session/pause", session=begun["number"], paused=False)
    assert refused["error"]["slug"] == "session-over"


def test_a_page_says_that_its_process_stands_still(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["dispatch:entry=count"])
    opened(page, window, f"/session/{begun['number']}")
    said = page.get_by_role("status").filter(has_text=f"Process {loop.pid} stands still: a signal has stopped it")
    expect(said).to_have_count(0)
    os.kill(loop.pid, signal.SIGSTOP)
    expect(said).to_contain_text(f"kill -CONT {loop.pid}")
    suits(page, "a process that stands still")
    os.kill(loop.pid, signal.SIGCONT)
    expect(said).to_have_count(0)
    asking.post("/session/end", session=begun["number"])


def test_python_that_does_the_same_says_how_to_pause(loop: Loop, asking: Asking) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["dispatch:entry=count"])
    asking.post("/session/end", session=begun["number"])
    assert "session.deactivate(session.probes)" in begun["python"]


def test_a_program_in_d_is_not_paused(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    text = "pid$target:a.out:dispatch:entry { @ = count(); }"
    begun = asking.post("/session/d", target=asking.target(loop.pid), text=text)
    assert asking.post("/session/pause", session=begun["number"], paused=True)["error"]["slug"] == "not-pausable"
    opened(page, window, f"/session/{begun['number']}")
    expect(page.get_by_role("button", name=re.compile("^Pause"))).to_have_text("Pause the view")
    asking.post("/session/end", session=begun["number"])

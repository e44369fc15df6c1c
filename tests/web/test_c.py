# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments in C, which are written in the list of chosen instruments: the compiler's words stand under the letters,
and what they record is what was passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.behaviour.harness import Loop, differences, wait_for
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

GOOD = """\
#include <gilk.h>

/* void not_me(unsigned int iid) { } */
void twice(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_pair_sample(2 * (int)regs->rdi, (int)regs->rdi, iid);
}

void named(unsigned int iid)
{
	ilk_log_string_sample("<b>here</b>", iid);
}
"""
WRONG = GOOD.replace("2 * (int)", "/* é */\tzwei * (int)")


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid), "--allow-c") as found:
        yield found


def test_a_problem_is_at_its_word(asking: Asking) -> None:
    assert asking.post("/c/check.json", text=GOOD) == {"functions": ["twice", "named"], "problems": []}
    assert asking.post("/c/names.json", text=WRONG) == {"functions": ["twice", "named"], "problems": []}
    (nothing,) = asking.post("/c/names.json", text="int x;")["problems"]
    assert "no function" in nothing["message"]
    (found,) = asking.post("/c/check.json", text=WRONG)["problems"]
    assert WRONG[found["start"] : found["end"]] == "zwei" and "zwei" in found["message"]
    assert (found["line"], found["column"]) == (6, WRONG.splitlines()[5].index("zwei") + 1)


@pytest.mark.parametrize(
    ("text", "word", "message"),
    [("int x;", "", "no function"), ("void f(int x) { (void)x; }", "f", "an instrument is void f"),
     ('#include "nothing.h"\nvoid f(unsigned int iid) { }', '"', "nothing.h")],
)  # fmt: skip
def test_problems_without_a_word_are_told(asking: Asking, text: str, word: str, message: str) -> None:
    (found,) = asking.post("/c/check.json", text=text)["problems"][:1]
    assert text[found["start"] : found["end"]].startswith(word) and message in found["message"]


def test_records_are_of_what_was_passed(asking: Asking, loop: Loop) -> None:
    requests = ["ackermann:entry=mine.c:twice", "text_hash:entry=mine.c:named", "dispatch:entry=count"]
    begun = asking.post("/session/c", target=asking.target(loop.pid), requests=requests, text=GOOD)
    assert (
        begun["command"].startswith("printf %s '#include <gilk.h>") and "gilk.c('mine.c', 'twice')" in begun["python"]
    )
    address = f"/session/{begun['number']}.json"
    assert wait_for(lambda: {"value", "text"} <= {name for one in asking.get(address).get("last", []) for name in one})
    last = asking.post("/session/end", session=begun["number"])["last"]
    pairs = [one for one in last if "extra" in one]
    assert all(one["value"] == 2 * one["extra"] and one["point"] == "work:ackermann:entry" for one in pairs)
    assert {one.get("text") for one in last} <= {None, "<b>here</b>"} and len(last) <= 10
    assert wait_for(lambda: not differences(loop.pid))


@pytest.mark.parametrize(
    ("request_", "text", "slug"),
    [("dispatch:entry=mine.c:nobody", GOOD, "no-such-instrument"),
     ("dispatch:entry=mine.c:twice", WRONG, "does-not-compile"),
     ("dispatch:entry=/etc/other.c:f", GOOD, "c-not-live"), ("dispatch:entry=mine.c:f", "x" * 70_000, "bad-request"),
     ("dispatch:entry=mine.c:f", "\0", "bad-request")],
)  # fmt: skip
def test_c_that_cannot_be_had_changes_nothing(asking: Asking, loop: Loop, request_: str, text: str, slug: str) -> None:
    answer = asking.post("/session/c", target=asking.target(loop.pid), requests=[request_], text=text)
    assert answer["error"]["slug"] == slug, answer
    assert not differences(loop.pid)


def test_only_a_window_that_may_takes_c(loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        requests = ["dispatch:entry=mine.c:twice"]
        told = asking.post("/session/c", target=asking.target(loop.pid), requests=requests, text=GOOD)
        assert told["error"]["slug"] == "not-granted"
        for path, more in (("/c/check.json", {}), ("/c/names.json", {}),
                           ("/session/machine/c", {"requests": requests, "workload": ""})):  # fmt: skip
            assert asking.post(path, text=GOOD, **more)["error"]["slug"] == "not-granted", path
        assert (
            asking.post("/session", target=asking.target(loop.pid), requests=requests)["error"]["slug"] == "c-not-live"
        )


def test_an_instrument_is_written_and_used_by_mouse_and_keys(
    page: Page, window: Served, loop: Loop, asking: Asking
) -> None:
    opened(page, window, f"/target/{asking.target(loop.pid)}/symbols?q=dispatch")
    page.get_by_role("button", name="Count calls of dispatch").click()
    page.get_by_text("Instruments in C").click()
    editor = page.get_by_label("mine.c")
    editor.fill(WRONG)
    expect(page.locator(".mark-wrong")).to_have_text("zwei")
    field, behind = editor.bounding_box(), page.locator(".behind").bounding_box()
    assert field == behind, "marks are seen wherever the text is"
    suits(page, "C with a problem")
    narrow(page, "C with a problem")
    page.get_by_role("button", name="line 6, column").click()
    expect(editor).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "zwei"
    editor.fill(GOOD)
    expect(page.get_by_text("It compiles, and has twice, named.")).to_be_visible()
    page.get_by_label("Instrument of dispatch:entry").select_option("mine.c:twice")
    expect(page.locator(".chosen code")).to_have_text("dispatch:entry=mine.c:twice")
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("1 point can be had")).to_be_visible()
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("table", name="Last records")).to_contain_text("work:dispatch:entry")
    number = asking.get("/index.json")["sessions"][0]["number"]
    asking.post("/session/end", session=number)
    expect(page.get_by_text("is what it was")).to_be_visible()
    suits(page, "records")
    narrow(page, "records")
    assert wait_for(lambda: not differences(loop.pid))

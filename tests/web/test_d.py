# SPDX-License-Identifier: LGPL-2.1-or-later
"""The D editor in a real browser, with the mouse and with the keyboard alone; and its JSON answers to any text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.behaviour.harness import Loop, differences, run_gilk
from tests.web.served import Asking, Served, clean, served
from tests.web.windows import asking, browser, context, page, ready, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'


@pytest.fixture(scope="module")
def window(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid)) as found:
        yield found


def target(page: Page, window: Served) -> str:
    page.goto(f"http://127.0.0.1:{window.port}/")
    ready(page)
    return str(page.get_by_role("link", name="work", exact=True).get_attribute("href")).split("/")[2]


def editor(page: Page, window: Served, text: str | None = None) -> str:
    """Open the page with a program, and wait until that has been checked. Returns the target."""
    found = target(page, window)
    query = "" if text is None else f"?{urllib.parse.urlencode({'text': text})}"
    page.goto(f"http://127.0.0.1:{window.port}/target/{found}/d{query}")
    ready(page)
    expect(page.locator("#problems > *")).to_have_count(1)
    return found


def field(page: Page) -> Any:
    return page.get_by_label("Program", exact=True)


def test_a_program_is_written_by_keyboard_alone(page: Page, window: Served, loop: Loop) -> None:
    editor(page, window)
    for _ in range(40):
        page.keyboard.press("Tab")
        if field(page).evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    words = page.locator("#words li")
    for typed, word in [("pid$t", "pid$target"), (":a.", "a.out"), (":disp", "dispatch"), (":en", "entry"),
                        ("\n{\n\t@calls[probef", "probefunc"), ("] = co", "count")]:  # fmt: skip
        page.keyboard.type(typed)
        expect(words.first).to_contain_text(word)
        expect(field(page)).to_have_attribute("aria-activedescendant", "word-0")
        page.keyboard.press("Enter")
        expect(page.locator("#words")).to_be_hidden()
    page.keyboard.type("();\n}\n")
    expect(field(page)).to_have_value("pid$target:a.out:dispatch:entry\n{\n\t@calls[probefunc] = count();\n}\n")
    expect(page.locator("#problems")).to_contain_text("Nothing is wrong with it. It is about 1 probe.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Preview")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Preview")).to_contain_text("1 probe at 1 place in its code: 1 by jump.")
    suits(page, "a preview")
    assert not differences(loop.pid), "nothing is written before it begins"
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Begin")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Output of the program")).to_contain_text("matched 1 probe")
    page.get_by_role("button", name="Take out").press("Enter")
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    expect(page.get_by_label("Output of the program")).to_contain_text("dispatch")
    assert clean(loop)


def test_a_program_without_output_is_shown_as_such(page: Page, window: Served, loop: Loop) -> None:
    editor(page, window, "#pragma D option quiet\nBEGIN\n{\n}\n")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_label("Program", exact=True)).to_have_text("#pragma D option quietBEGIN{}")
    assert page.get_by_label("Program", exact=True).locator("br").count() == 4
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("It is over")).to_be_visible()
    assert clean(loop)


def test_errors_are_shown_at_their_place_in_the_text(page: Page, window: Served) -> None:
    editor(page, window, "BEGIN\n{\n\ttrace(nothing_here);\n}\n")
    wrong = page.get_by_role("button", name="line 3, column 8")
    expect(page.locator("#problems")).to_contain_text("failed to resolve nothing_here: Unknown variable name")
    expect(page.locator(".mark-wrong")).to_have_text("nothing_here")
    suits(page, "a problem")
    wrong.click()
    assert page.evaluate("[document.activeElement.selectionStart, document.activeElement.selectionEnd]") == [15, 27]
    page.keyboard.type("execname")
    expect(page.locator("#problems")).to_contain_text("Nothing is wrong with it")
    expect(page.locator(".mark-wrong")).to_have_count(0)
    field(page).fill("BEGIN, pid$target:a.out:nothing_here:entry { }")
    expect(page.locator(".mark-wrong")).to_have_text("pid$target:a.out:nothing_here:entry")
    expect(page.locator(".count")).to_have_text("1 probe, 0 probes")


def test_completions_are_chosen_by_mouse_and_undone(page: Page, window: Served) -> None:
    editor(page, window, "")
    field(page).press_sequentially("BEGIN { tra")
    expect(page.locator("#words li").first).to_be_visible()
    suits(page, "a list of words")
    page.get_by_role("option", name="tracemem").click()
    expect(field(page)).to_have_value("BEGIN { tracemem")
    page.keyboard.press("Control+z")
    expect(field(page)).to_have_value("BEGIN { tra")
    page.keyboard.press("Control+ ")
    expect(page.locator("#words li").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#words")).to_be_hidden()
    expect(field(page)).to_be_focused()
    page.keyboard.press("Control+ ")
    page.keyboard.press("ArrowDown")
    expect(field(page)).to_have_value("BEGIN { tra")


def test_characters_beyond_the_basic_plane_count_as_one(page: Page, window: Served) -> None:
    editor(page, window, "")
    field(page).press_sequentially('BEGIN { trace("\U0001f41f\U0001f41f"); trace(timest')
    expect(page.locator("#words li").first).to_contain_text("timestamp")
    page.keyboard.press("Enter")
    expect(field(page)).to_have_value('BEGIN { trace("\U0001f41f\U0001f41f"); trace(timestamp')
    field(page).fill('BEGIN { trace("\U0001f41f\U0001f41f"); trace(no_such); }')
    expect(page.locator(".mark-wrong")).to_have_text("no_such")


def test_the_shown_commands_do_the_same_as_the_page(page: Page, window: Served, loop: Loop) -> None:
    """The commands that the page shows are run, by a shell and by Python."""
    text = 'BEGIN\n{\n\tprintf("it\'s %d", $target);\n\texit(3);\n}\n'
    editor(page, window, text)
    page.get_by_text("As a command").click()
    line = str(page.get_by_label("Command line").inner_text()).replace("\xa0", " ")
    assert line.startswith(f"gilk dtrace -p {loop.pid} -n ")
    found = target(page, window)
    query = urllib.parse.urlencode({"text": text})
    with page.expect_response("**/d/check.json*") as answered:
        page.goto(f"http://127.0.0.1:{window.port}/target/{found}/d?{query}")
    same = answered.value.json()
    assert same["command"].replace("\t", "    ") == line
    words = subprocess.run(["bash", "-c", f'printf "%s\\0" {same["command"]}'], capture_output=True, text=True).stdout
    done = run_gilk(*words.split("\0")[1:-1])
    assert done.returncode == 3 and f"it's {loop.pid}" in done.stdout
    ran = subprocess.run([sys.executable, "-c", same["python"]], capture_output=True, text=True, timeout=60)
    assert 'format="it\'s %d"' in ran.stdout and "Exited(status=3" in ran.stdout, ran.stderr


@pytest.mark.stress
def test_a_distribution_grows_into_a_heat_map(page: Page, window: Served, loop: Loop) -> None:
    """The final picture agrees with the program's output; open parts stay open while it goes on."""
    text = """pid$target::dispatch:entry
{ @sizes[probefunc] = quantize(arg0 & 255); @calls[probename] = count(); @most[probefunc] = max(arg0 & 255); }"""
    editor(page, window, text)
    page.get_by_role("button", name="Begin").click()
    grown = page.get_by_label("Aggregations")
    expect(grown.locator("svg[role=img] rect").first).to_be_attached()
    page.locator("[data-of='times of sizes dispatch'] summary").click()
    region = page.get_by_label("Table of dispatch")
    region.focus()
    columns = region.locator("th").count()
    expect(region.locator("th").nth(columns + 1)).to_be_attached()
    expect(region).to_be_focused()
    expect(grown.locator("svg.over-time polyline")).to_have_count(1)
    suits(page, "a heat map and lines")
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    printed = page.get_by_label("Output of the program").inner_text()
    bars = [line.partition("|")[2] for line in printed.splitlines()]
    counts = [bar.split()[-1] for bar in bars if "@" in bar]
    shown = grown.get_by_role("table", name="Distribution of sizes, dispatch").locator("tbody tr td:nth-child(2)")
    assert counts and set(counts) <= {each.replace("\u202f", "") for each in shown.all_text_contents()}
    expect(grown.get_by_role("table", name="Rows of calls").locator("tbody tr")).to_have_count(1)
    (most,) = re.findall(r"^ +dispatch +(\d+)$", printed, re.MULTILINE)
    expect(grown.get_by_role("table", name="Rows of most").locator("tbody td")).to_have_text(["dispatch", most])
    page.locator("[data-of='values of most'] summary").click()
    values = grown.get_by_role("table", name="most over time").locator("tbody td").all_text_contents()
    assert values[0] == "dispatch" and len(values) > 2 and int(values[-1]) <= int(most)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.set_viewport_size({"width": 1200, "height": 900})
    assert clean(loop)


@pytest.mark.stress
def test_counts_by_stacks_are_a_flame_graph(page: Page, window: Served, loop: Loop) -> None:
    editor(page, window, "pid$target::ackermann:entry { @stacks[ustack(6)] = count(); }")
    page.get_by_role("button", name="Begin").click()
    flames = page.get_by_label("Flame graph of @stacks", exact=False).first
    expect(flames.locator("title", has_text="main").first).to_be_attached()
    whole = flames.locator("title").first.text_content()
    suits(page, "a flame graph")
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    page.get_by_text("Counts", exact=True).click()
    rows = page.get_by_role("table", name="Rows of stacks").locator("td:nth-child(2)").all_text_contents()
    total = sum(int(each.replace("\u202f", "")) for each in rows)
    after = flames.locator("title").first.text_content()
    assert whole and after and after.replace("\u202f", "") == f"all: {total}, 100.0 %"
    assert clean(loop)


HOSTILE = {
    "markup": f'BEGIN {{ trace("{CANARY}"); {CANARY} }}',
    "a probe": f"{CANARY}:a:b:entry {{ }}",
    "bidi": "BEGIN { trace(\u202e\u2066x); }",
    "control": "BEGIN { \x1b[2J\x07\x00; }",
    "brackets": "BEGIN { " + "(" * 100_000,
    "blocks": "BEGIN { " + "if (1) {" * 20_000,
    "a sum": "BEGIN { x = " + "1+" * 50_000 + "1; }",
    "structs": "struct s { " * 20_000,
    "a name": "BEGIN { " + "a" * 200_000 + "; }",
    "a description": "pid1:" * 50_000 + " { }",
    "a string": '"' * 100_001,
    "a comment": "/* " * 100_000,
    "half a letter": "BEGIN { \ud800",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("what", ["check", "words", "preview"])
def test_hostile_texts_get_an_answer(asking: Asking, loop: Loop, name: str, what: str) -> None:
    """The answer comes in time, with the errors of the text or a refusal; the next text is answered too."""
    text = HOSTILE[name]
    path = f"/target/{asking.target(loop.pid)}/d"
    more = {"at": len(text)} if what == "words" else {}
    found = asking.post(f"{path}/{what}.json", text=text, **more)
    assert found.get("problems") or found.get("error", {}).get("slug") in (
        "bad-request", "d-too-slow", "d-program-refused", "child-gone") or what == "words", found  # fmt: skip
    after = asking.post(f"{path}/check.json", text="BEGIN { }")
    assert (after["problems"], after["probes"]) == ([], 1)
    assert not differences(loop.pid)


@pytest.mark.stress
def test_a_text_of_a_megabyte_is_refused(asking: Asking, loop: Loop) -> None:
    path = f"/target/{asking.target(loop.pid)}/d/check.json"
    assert asking.post(path, text="x" * (1 << 20))["error"]["slug"] == "bad-request"
    almost = asking.post(path, text="BEGIN { }\n" * 90_000)
    assert almost.get("error", {}).get("slug") == "d-too-slow" or almost["probes"] == 90_000


def test_hostile_texts_are_shown_as_text(page: Page, window: Served) -> None:
    for name in ("markup", "a probe", "bidi"):
        editor(page, window, HOSTILE[name])
        expect(page.locator("#problems li").first).to_be_visible()
    assert page.locator("#main img").count() == 0


def test_json_answers_by_address(asking: Asking, loop: Loop, tmp_path: Path) -> None:
    name = asking.target(loop.pid)
    text = "pid$target:libc.so.6:mall"
    query = urllib.parse.urlencode({"text": text, "at": len(text)})
    found = asking.get(f"/target/{name}/d/words.json?{query}")
    assert {"text": "malloc", "kind": "function", "detail": "libc.so.6", "goes_on": False} in found["words"]
    assert (found["start"], found["end"]) == (21, 25)
    assert asking.get(f"/target/{name}/d.json?text=BEGIN")["command"] == f"gilk dtrace -p {loop.pid} -n BEGIN"
    for path, slug in [(f"/target/{name}/d/words.json?at=x", "bad-request"),
                       ("/target/pid-1-1/d/check.json", "target-changed"),
                       ("/target/kernel/d/check.json", "not-granted")]:  # fmt: skip
        assert asking.get(path)["error"]["slug"] == slug
    assert json.dumps(asking.get(f"/target/{name}/d/check.json?text="))  # an empty program is refused
    assert asking.get(f"/target/{name}/d/check.json?text=")["problems"][0]["tag"] == "D_EMPTY"


def test_a_read_only_window_checks_programs_but_does_not_run_them(browser: Browser, loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid), "--read-only") as window:
        page = browser.new_page()
        page.goto(window.address)
        ready(page)
        editor(page, window, "BEGIN { x")
        expect(page.locator("#problems")).to_contain_text("syntax error")
        expect(page.get_by_role("button", name="Begin")).to_be_disabled()
        page.close()

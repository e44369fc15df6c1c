# SPDX-License-Identifier: LGPL-2.1-or-later
"""The window in a real browser: a session with the mouse and one with the keyboard, hostile names, and accessibility.

Every page must load without a message on the console. Tests wait for the elements that they check.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, Response, Route, expect

from tests.behaviour.harness import Loop, differences, run_gilk, wait_for
from tests.web.served import Asking, Served, clean, served
from tests.web.windows import asking, browser, context, narrow, opened, page, ready, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures


CANARY = '<img src=x onerror="window.canary=1">'
STRANGE = ["</style><script>window.canary=1</script>", "a\u202egnp.exe", "x\x01\x7f\x1b[2J", "y" * 3000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a program whose functions have hostile names."""
    place = tmp_path_factory.mktemp("strange")
    names = [CANARY, *STRANGE]
    marks = [f"q{n:02}".ljust(len(name.encode()), "z") for n, name in enumerate(names)]
    functions = "".join(
        f".globl {mark}\n.type {mark},@function\n{mark}: mov %edi,%eax\ninc %eax\nret\n.size {mark},.-{mark}\n"
        for mark in marks
    )
    main = f".globl main\n.type main,@function\nmain: call {marks[0]}\nret\n.size main,.-main\n"
    (place / "x.s").write_text(f"{main}{functions}.section .note.GNU-stack\n")
    subprocess.run(["cc", "-o", place / "x", place / "x.s"], check=True)
    code = (place / "x").read_bytes()
    for mark, name in zip(marks, names, strict=True):
        code = code.replace(mark.encode(), name.encode())
    (place / "x").write_bytes(code)
    return place


@pytest.fixture(scope="module")
def window(loop: Loop, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid), "--files", folder) as found:
        yield found


def functions(page: Page, window: Served, name: str) -> None:
    """Open the page of the functions of a process or a file, by its link on the overview."""
    opened(page, window, "/")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("td.name").first).to_be_visible()


def test_a_session_is_run_by_mouse(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    functions(page, window, "work")
    page.get_by_label("Function", exact=True).fill("dispat")
    expect(page.locator("td.name")).to_have_count(1)
    assert "q=dispat" in page.url
    page.get_by_role("link", name="dispatch", exact=True).click()
    page.get_by_role("button", name="@0:pre", exact=False).first.click()
    live = asking.get(f"/target/{asking.target(loop.pid)}/function.json?at=dispatch")["blocks"][0]["live"]
    expect(page.locator("p.live")).to_have_text(f"Live at the head of @0: {' '.join(live)}.")
    assert {"rdi", "rsi"} <= set(live), "its arguments"
    page.locator("path.wide-edge").filter(has_text="@0->@1: a click picks @0:post").dispatch_event("click")
    expect(page.get_by_role("button", name="@0:post", exact=False).first).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Leave out dispatch:@0:post=count").click()
    page.locator("path.wide-edge").filter(has_text=re.compile("^@1->@13$")).dispatch_event("click")
    expect(page.get_by_text("@1->@13 has no point of its own")).to_be_visible()
    page.get_by_role("button", name="Count every block").click()
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("points can be had")).to_be_visible()
    expect(page.locator("#pane")).to_contain_text(re.compile(r"a hit costs the program about: count [\d.]+ ns\."))
    page.get_by_text("As a command").last.click()
    expect(page.locator("#pane pre").first).to_have_text(
        f"gilk run -p {loop.pid} -i 'dispatch:@0:pre=count' -i 'dispatch:blocks=count'"
    )
    assert not differences(loop.pid), "nothing is written before it begins"
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    assert differences(loop.pid)
    page.go_back()
    expect(page.locator("g.heat6").first).to_be_attached()
    suits(page, "counted blocks")
    status = page.locator("#top .status")
    expect(status).to_have_text(
        re.compile(r"^1 session, 0 dropped; of a processor, probes take [\d.]+ %, gilk [\d.]+ %$")
    )
    page.go_forward()
    page.get_by_text("What the probes cost").click()
    row = page.get_by_role("table", name="Cost of each point").locator("tbody tr").first
    expect(row).to_have_text(re.compile(r"^work:dispatch:@\d+:precount[\d\s]+[\d.]+ ns[\d.]+ .s$"))
    expect(page.locator("dl.facts")).to_contain_text(
        re.compile(r"taken by probesabout [\d.]+ \S+ \([\d.]+ % of a processor\)")
    )
    suits(page, "costs of points")
    narrow(page, "costs of points")
    pause, facts = page.get_by_role("button", name="Pause the view"), page.locator("dl.facts")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    shown, address = facts.inner_text(), f"/session/{page.url.rpartition('/')[2]}.json"
    then = asking.get(address)["seconds"]
    assert wait_for(lambda: asking.get(address)["seconds"] > then + 1)
    assert facts.inner_text() == shown
    pause.click()
    expect(facts).not_to_have_text(shown, use_inner_text=True)
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    suits(page, "a session that is over")
    expect(status).to_be_empty()
    expect(page.locator("#notice")).to_be_empty()  # it would say still that the instruments are in
    expect(page.get_by_role("columnheader", name="Now")).to_have_count(0)
    assert clean(loop)


def test_the_window_is_opened_in_another_browser(browser: Browser, loop: Loop, tmp_path: Path) -> None:
    """The session is still there for whoever has closed the only browser and asks for a new address by the command."""
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        first, second, third = (browser.new_context() for _ in range(3))
        one = first.new_page()
        one.goto(window.address)
        ready(one)
        asking = Asking(window, str(one.evaluate("sessionStorage.getItem('gilk-token')")))
        number = asking.post("/session", target=asking.target(loop.pid), requests=["dispatch:entry=count"])["number"]
        one.get_by_role("button", name="Open in another browser").click()
        expect(one.get_by_text(re.compile(r"^It is good once, until \d\d:\d\d:\d\d\."))).to_be_visible()
        suits(one, "an address for another browser")
        narrow(one, "an address for another browser")
        other = second.new_page()
        other.goto(one.get_by_label("Address").input_value())
        expect(other.get_by_role("table", name="Sessions")).to_contain_text("work")
        first.close()
        second.close()
        pid = window.process.pid
        address = json.loads(run_gilk("web", "--json", "--key", pid).stdout)["address"]
        last = third.new_page()
        last.goto(address)
        ready(last)
        last.goto(f"{address.partition('#')[0]}session/{number}")
        last.get_by_role("button", name="Take out").click()
        expect(last.get_by_text("the code was compared: it is what it was")).to_be_visible()
        last.goto(address)
        expect(last.get_by_text("is older than a minute")).to_be_visible()
        expect(last.get_by_text("gilk web --key")).to_be_visible()
        third.close()
        assert clean(loop)


def test_the_overview_follows_the_sessions(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    """Without a reload, and without taking the focus from what it is on."""
    opened(page, window, "/")
    field = page.get_by_label("Name, number or file")
    field.fill("wor")
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["dispatch:entry=count"])
    table = page.get_by_role("table", name="Sessions")
    row = table.get_by_role("row").filter(has_text=f"{begun['number']}: work")
    hits, rate, cost = (row.get_by_role("cell").nth(place) for place in (2, 4, 5))
    expect(hits).to_have_text(re.compile("[1-9]"))
    expect(rate).to_have_text(re.compile("[1-9]"))
    expect(cost).to_have_text(re.compile(r"^[\d.]+ %$"))
    expect(field).to_be_focused()
    page.keyboard.type("k")
    expect(field).to_have_value("work")
    link = row.get_by_role("link")
    link.focus()
    shown = hits.inner_text()
    expect(hits).not_to_have_text(shown)
    expect(link).to_be_focused()
    suits(page, "a session on the overview")
    narrow(page, "a session on the overview")
    row.get_by_role("button", name=f"Take out session {begun['number']}").click()
    expect(row).to_contain_text("over: you ended it")
    expect(row.get_by_role("button")).to_have_count(0)
    assert clean(loop)


@pytest.mark.stress
def test_a_strategy_counts_edges(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    """The counts of a function's edges are at the edges of its graph; what is taken into a block is what it is hit."""
    target = asking.target(loop.pid)
    opened(page, window, f"/target/{target}/function?at=dispatch")
    page.get_by_label("A strategy chooses the points").select_option("edges")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("button", name="@0:pre", exact=False).first).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text("points can be had")).to_be_visible()
    page.get_by_text("As a command").last.click()
    line = f"gilk run -p {loop.pid} -i 'dispatch=@edges'"
    expect(page.locator("#pane pre").first).to_have_text(line)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("table", name="How often each edge is taken")).to_contain_text("work:dispatch:@0->@")
    expect(page.get_by_role("table", name="Instruments")).to_contain_text("dispatch=@edgeson0 s to the end")
    expect(page.get_by_role("table", name="Hits of each point")).to_contain_text("/s")
    suits(page, "counted edges")
    narrow(page, "counted edges")
    page.get_by_role("link", name="dispatch", exact=True).click()
    edge = page.locator("path.wide-edge title").filter(has_text="@0->@1: taken")
    expect(edge).to_have_text(re.compile("taken [0-9\u202f]+ times"))
    expect(page.locator("text.taken-count").filter(has_text=re.compile("[0-9]")).first).to_be_attached()
    suits(page, "edges with counts")
    number = asking.get("/index.json")["sessions"][0]["number"]
    over = asking.post("/session/end", session=number)
    assert over["report"]["restored"] is True and shlex.split(over["command"]) == shlex.split(line)
    assert "gilk.prepare_run(" in over["python"]
    found, blocks = over["stages"]["edges"], over["counts"]
    for block in {edge.rpartition("->")[2] for edge in found}:
        into = [count for edge, count in found.items() if edge.endswith(f"->{block}")]
        assert None in into or sum(into) == blocks[f"work:dispatch:{block}:pre"], block
    assert found == {name: count for name, count in over["report"]["counts"].items() if "->" in name}


@pytest.mark.stress
def test_instruments_come_and_go_at_their_times(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    target = asking.target(loop.pid)
    opened(page, window, f"/target/{target}")
    typed = page.get_by_label("Points and instrument")
    typed.fill("ackermann")
    typed.press("Enter")
    expect(page.get_by_text("That is POINTS=INSTRUMENT")).to_be_visible()
    typed.fill("ackermann:entry=count")
    typed.press("Enter")
    typed = page.locator("#pane").get_by_label("Points and instrument")
    typed.fill("dispatch:entry=count")
    page.locator("#pane").get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("Start and stop times").click()
    page.get_by_role("spinbutton", name="Start of ackermann:entry=count").fill("0.3")
    page.get_by_role("spinbutton", name="Stop of ackermann:entry=count").fill("0.5")
    page.get_by_role("spinbutton", name="Stop of ackermann:entry=count").blur()
    suits(page, "times of instruments")
    narrow(page, "times of instruments")
    page.get_by_text("As a command").last.click()
    shown = page.locator("#pane pre").first
    expect(shown).to_contain_text("gilk experiment run times.toml")
    line = shown.inner_text()
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("table", name="Instruments")).to_contain_text("ackermann:entry=countfinished0.3 s to 0.5 s")
    expect(page.get_by_role("table", name="Instruments")).to_contain_text("dispatch:entry=counton0 s to the end")
    suits(page, "instruments with times")
    number = asking.get("/index.json")["sessions"][0]["number"]
    over = asking.post("/session/end", session=number)
    assert over["report"]["restored"] is True and over["command"] == line
    one = next(each for each in over["stages"]["instruments"] if each["stop_s"])
    assert one["in"][0] >= over["stages"]["began"] + 300_000_000 and one["out"][0] >= one["in"][1]
    file = line.partition("printf %s ")[2].rpartition(" > times.toml")[0]
    (text,) = shlex.split(file)
    assert [(each["points"], each.get("start"), each.get("stop")) for each in tomllib.loads(text)["instrument"]] == [
        ("ackermann:entry", 0.3, 0.5), ("dispatch:entry", None, None)]  # fmt: skip


@pytest.mark.stress
def test_a_session_is_over_when_all_its_instruments_have_come_out(window: Served, loop: Loop, asking: Asking) -> None:
    """`coverage` takes each point out at its first hit; those that are never hit stay."""
    target = asking.target(loop.pid)
    wanted = [
        {"request": "ackermann=@path", "start": 0, "stop": 0.2},
        {"request": "dispatch:entry=count", "start": 0, "stop": 0.1},
    ]
    begun = asking.post("/session", target=target, requests=wanted)
    address = f"/session/{begun['number']}.json"
    assert wait_for(lambda: bool(asking.get(address)["end"]))
    over = asking.get(address)
    assert over["end"] == "all its instruments have come out again" and over["report"]["restored"] is True
    begun = asking.post("/session", target=target, requests=["dispatch=@coverage"])
    address = f"/session/{begun['number']}.json"
    one = {"present": 0, "points": 0}

    def watched_less() -> bool:
        one.update(asking.get(address).get("stages", {}).get("instruments", [one])[0])
        return one["present"] < one["points"]

    assert wait_for(watched_less)
    over = asking.post("/session/end", session=begun["number"])
    hit = sum(count > 0 for count in over["counts"].values())
    assert hit == len(over["counts"]) - over["stages"]["instruments"][0]["present"] and clean(loop)


@pytest.mark.parametrize(
    ("wanted", "slug"),
    [("dispatch=@nothing", "no-such-strategy"), ("dispatch:entry=@path", "bad-strategy"),
     ({"request": "dispatch=@path", "start": 2, "stop": 1}, "bad-request"),
     ({"request": "dispatch=@path"}, "bad-request")],
)  # fmt: skip
def test_refused_strategies_change_nothing(asking: Asking, loop: Loop, wanted: object, slug: str) -> None:
    answer = asking.post("/session", target=asking.target(loop.pid), requests=[wanted])
    assert answer["error"]["slug"] == slug and not differences(loop.pid)


def test_a_strategy_in_python_is_not_executed(asking: Asking, loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef go(function):\n    return []\n")
    for path in ("/session", "/preview"):
        answer = asking.post(path, target=asking.target(loop.pid), requests=[f"dispatch=@{tmp_path}/mine.py:go"])
        assert answer["error"]["slug"] == "own-code", answer
    assert not (tmp_path / "ran").exists()


def test_a_session_is_run_by_keyboard(page: Page, window: Served, loop: Loop) -> None:
    functions(page, window, "work")

    def reach(name: str, role: str = "button") -> None:
        """Press Tab until that element has the focus."""
        wanted = page.get_by_role(role, name=name).first  # type: ignore[arg-type]
        expect(wanted).to_be_visible()
        for _ in range(200):
            page.keyboard.press("Tab")
            if wanted.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{name} cannot be reached")

    reach("Function", "searchbox")
    page.keyboard.type("ackermann")
    expect(page.locator("td.name")).to_have_count(1)
    reach("Time calls of ackermann")
    page.keyboard.press("Enter")
    reach("Begin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Times of calls")).to_be_visible()
    reach("Everything out")
    page.keyboard.press("Enter")
    expect(page.get_by_text("the code is what it was")).to_be_visible()
    assert clean(loop)


def test_times_of_calls_are_shown_over_time(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    begun = asking.post("/session", target=asking.target(loop.pid), requests=["ackermann:entry=time"])
    opened(page, window, f"/session/{begun['number']}")
    expect(page.get_by_role("img", name=re.compile("^Lines of (recorded )?calls in a second"))).to_be_visible()
    figure = page.locator("figure")
    expect(figure.get_by_role("img", name="Heat map of the times of ackermann")).to_be_visible()
    figure.get_by_text("Over time, as a table").click()
    suits(page, "times of calls over time")
    narrow(page, "times of calls over time")
    over = asking.post("/session/end", session=begun["number"])["latency"]["ackermann"]
    expect(page.get_by_role("heading", name="It is over")).to_be_visible()
    heads = figure.get_by_role("table", name="the times of ackermann over time").locator("thead th")
    expect(heads).to_have_text(["From", *(f"{look['seconds']:g} s" for look in over["times"])])
    seen = [sum(count for _, count in look["more"]) for look in over["times"]]
    assert len(seen) > 2 and 0 < sum(seen) <= over["calls"] and clean(loop)


def test_a_new_page_gets_the_focus_for_readers_who_use_the_keyboard(page: Page, window: Served) -> None:
    opened(page, window, "/")
    page.keyboard.press("?")
    listed = page.get_by_role("dialog", name="Keys")
    expect(listed).to_contain_text("Tab, Shift-Tab")
    suits(page, "the list of keys")
    narrow(page, "the list of keys")
    page.keyboard.press("Escape")
    expect(listed).to_have_count(0)
    page.get_by_role("link", name="Doctor").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_a_new_page_leaves_the_focus_with_one_who_types_already(page: Page, window: Served) -> None:
    """The answer about the functions is held back until a letter has been typed into the field."""
    opened(page, window, "/")
    held: list[Route] = []
    free: list[bool] = []
    page.route("**/symbols.json*", lambda route: route.continue_() if free else held.append(route))
    page.get_by_role("link", name="work", exact=True).click()
    field = page.get_by_label("Function", exact=True)
    field.press_sequentially("dis")
    free.append(True)
    for each in held:
        with suppress(Error):  # the page has given up a request, for it has made a later one
            each.continue_()
    ready(page)
    expect(page.locator("td.name").first).to_be_visible()
    expect(field).to_be_focused()
    page.keyboard.type("patch")
    expect(field).to_have_value("dispatch")


@pytest.mark.stress
def test_a_d_programs_output_is_shown(page: Page, window: Served, loop: Loop) -> None:
    functions(page, window, "work")
    page.get_by_role("link", name="a D program for it").click()
    page.get_by_label("Program", exact=True).fill("pid$target::dispatch:entry { x")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was put in.")
    page.get_by_label("Program", exact=True).fill('pid$target::dispatch:entry /++n == 5/ { printf("<b>%d", n); }')
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_label("Output of the program")).to_contain_text("<b>5")
    told = re.compile(r"^1 session, 0 dropped; of a processor, gilk takes [\d.]+ %$")  # and nothing of its probes
    expect(page.locator("#top .status")).to_have_text(told)
    suits(page, "a D program")
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    assert clean(loop)


def test_hostile_names_are_shown_as_text(page: Page, window: Served, folder: Path) -> None:
    functions(page, window, str(folder / "x"))
    page.get_by_label("Function", exact=True).fill("onerror")
    expect(page.locator("td.name")).to_have_text([CANARY])
    page.get_by_label("Function", exact=True).fill("gnp")
    expect(page.locator("td.name")).to_have_text(["a\\u202egnp.exe"])
    page.get_by_label("Function", exact=True).fill("main")
    expect(page.locator("td.name")).to_have_count(1)
    page.get_by_role("link", name="main", exact=True).click()
    expect(page.locator(".graph")).to_contain_text(CANARY)
    assert page.evaluate("window.canary === undefined")


def test_an_endless_search_is_given_up(context: BrowserContext, window: Served, folder: Path) -> None:
    page = context.new_page()
    functions(page, window, str(folder / "x"))
    page.get_by_label("Function", exact=True).fill("/^(y+)+z/")
    expect(page.get_by_role("alert")).to_contain_text("search-too-slow")
    page.get_by_label("Function", exact=True).fill("main")
    expect(page.locator("td.name")).to_have_text(["main"])
    page.close()


APPEND = """name => import(document.querySelector("script").src.replace("main.js", "dom.js"))
    .then(({ h }) => document.body.append(h("p", null, name))).then(() => "done", String)"""


@pytest.mark.parametrize("policy", [True, False])
def test_negative_control_hostile_markup_is_detected(context: BrowserContext, window: Served, policy: bool) -> None:
    """Control: if text were turned into markup, the name would be executed, and the policy alone would prevent that."""
    page = context.new_page()
    text = "element.append(child instanceof Node"

    def answer(route: Route) -> None:
        found = route.fetch()
        body = found.text().replace(text, f"element.innerHTML = child; {text}")
        headers = {name: value for name, value in found.headers.items() if policy or name != "content-security-policy"}
        route.fulfill(response=found, body=body, headers=headers)

    page.route("**/assets/*/dom.js", answer)
    page.route(f"http://127.0.0.1:{window.port}/about", answer)
    page.goto(f"http://127.0.0.1:{window.port}/about")
    done = page.evaluate(APPEND, CANARY)
    if policy:
        assert "TrustedHTML" in done and page.evaluate("window.canary === undefined")
    else:
        page.wait_for_function("window.canary === 1")
    page.close()


PAGES = [
    "/",
    "/about",
    "/traces",
    "/help",
    "/help/cli/run",
    "/target/ID",
    "/target/ID/symbols",
    "/target/ID/function?at=dispatch",
    "/target/ID/d",
]


def test_pages_are_accessible(page: Page, window: Served, loop: Loop) -> None:
    """axe finds no fault, in light and dark; at 360 px only tables, graphs and code are wider than the page."""
    opened(page, window, "/")
    target = page.get_by_role("link", name="work", exact=True).get_attribute("href").split("/")[2]  # type: ignore[union-attr]
    for path in PAGES:
        opened(page, window, path.replace("ID", target))
        assert page.locator("h1").count() == 1, path
        suits(page, path)
        narrow(page, path)


def test_findings_of_the_doctor_with_long_words_fit_on_a_narrow_page(page: Page, window: Served) -> None:
    finding = {
        "name": "driver",
        "status": "warn",
        "found": "6.18.44-" + "x" * 40,
        "means": f"{'KERNEL:' * 9} take it",
        "fix": "y" * 50,
    }
    told = {"ok": True, "checks": [finding], "command": "gilk doctor"}
    page.route("**/doctor.json", lambda route: route.fulfill(json=told))
    opened(page, window, "/doctor")
    expect(page.get_by_role("table", name="Findings")).to_contain_text("with a limit")
    suits(page, "doctor")
    narrow(page, "doctor")


def test_a_page_shows_the_content_of_its_json(page: Page, window: Served, loop: Loop) -> None:
    with page.expect_response("**/symbols.json*") as answered:
        functions(page, window, "work")
    rows = answered.value.json()["rows"]
    assert [row["shown"] for row in rows] == page.locator("td.name").all_text_contents()
    with page.expect_response("**/function.json*") as graph:
        page.get_by_role("link", name="dispatch", exact=True).click()
    blocks = graph.value.json()["blocks"]
    expect(page.locator(".graph .block")).to_have_count(len(blocks))
    strips = page.locator(".graph .point").all_text_contents()
    assert strips == [
        f"@{block['index']}:{side}  {block['points'][side].get('tactic')}"
        for block in blocks
        for side in ("pre", "post")
    ]


def test_a_refused_search_has_no_count(page: Page, window: Served) -> None:
    functions(page, window, "work")
    expect(page.locator(".counted")).to_contain_text("functions match")
    page.get_by_label("Function", exact=True).fill("0x")
    expect(page.get_by_role("alert")).to_contain_text("bad-search")
    expect(page.locator(".counted")).to_be_empty()


def test_a_slug_leads_to_its_paragraph(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    """In the list of chosen instruments, in a notice, and where an error takes the place of a page."""
    target = asking.target(loop.pid)

    def leads(link: Locator) -> None:
        slug = link.text_content() or ""
        link.click()
        heading = page.get_by_role("heading", name=slug, exact=True)
        expect(heading).to_be_focused()
        expect(heading).to_be_in_viewport()

    opened(page, window, f"/target/{target}")
    typed = page.get_by_label("Points and instrument")
    typed.fill("nowhere:entry=count")
    typed.press("Enter")
    for button, place in (("Preview the plan", page.locator("#pane .plan")), ("Begin", page.locator("#notice"))):
        page.get_by_role("button", name=button).click()
        leads(place.get_by_role("link", name="no-such-function", exact=True))
        page.go_back()
    page.get_by_role("button", name="Clear").click()
    opened(page, window, "/session/4711")
    expect(page.get_by_role("alert")).to_contain_text("there is no session 4711 (no-such-session)")
    leads(page.get_by_role("link", name="no-such-session", exact=True))
    suits(page, "a paragraph of the errors")
    opened(page, window, "/help/d/errors#d_proc_off")
    expect(page.get_by_role("row", name="D_PROC_OFF an offset")).to_be_focused()


def test_the_documentation_is_listed_by_titles(page: Page, window: Served) -> None:
    opened(page, window, "/help")
    commands = page.locator("section").filter(has=page.get_by_role("heading", name="Commands"))
    commands.get_by_role("link", name="gilk web").click()
    expect(page.get_by_role("heading", name="gilk web")).to_be_visible()
    expect(page.get_by_text("a local web application")).to_be_visible()
    expect(page.get_by_text("coloured by their hits")).to_have_count(0)  # the words of a picture


def test_the_first_page_needs_few_requests(browser: Browser, tmp_path: Path) -> None:
    """Over a slow connection each takes a while."""
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        page = browser.new_page()
        answers: list[Response] = []

        def answered(response: Response) -> None:  # Playwright takes no methods of builtin types
            answers.append(response)

        page.on("response", answered)
        page.goto(window.address)
        ready(page)
        expect(page.get_by_role("heading", name="Processes")).to_be_visible()
        files = [one for one in answers if "/assets/" in one.url]
        sizes = {one.url.rpartition("/")[2]: len(gzip.compress(one.body())) for one in files}
        page.close()
        assert len(answers) <= 13, [one.url for one in answers]
        assert sum(sizes.values()) <= 20_000, sizes
        assert {"main.js", "dom.js", "talk.js", "overview.js"} <= sizes.keys(), "the control"


def test_without_a_key_the_page_explains_what_to_do(browser: Browser, window: Served) -> None:
    page = browser.new_page()
    opened(page, window, "/")
    expect(page.get_by_role("alert")).to_contain_text("needs a key")
    page.goto(window.address)
    ready(page)
    page.close()

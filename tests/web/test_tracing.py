# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace that is begun from the page of a process, in a real browser, by mouse and by keyboard alone; the calls in its
file are those that the program's own code makes, and who may begin one."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.behaviour.harness import Loop, differences, run_gilk, wait_for
from tests.programs.build import build
from tests.seldom import seldom
from tests.web.served import Asking, Served, clean, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'
ASKED = {"start": "now", "stop": "for:300ms", "scope": ["work:dispatch"], "skip": [], "depth": 0, "all": True}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def window(loop: Loop, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--pid", str(loop.pid), "--traces", kept) as found:
        yield found


def ended(asking: Asking, number: int) -> Any:
    """A session, once it is over."""
    found: dict[str, Any] = {}
    assert wait_for(lambda: found.update(asking.get(f"/session/{number}.json")) or (found["end"] and "report" in found))
    return found


TRACED = """state => import(document.querySelector("script").src.replace("main.js", "session.js"))
  .then(({ traced }) => traced(state).querySelector("a[href*=all]")?.getAttribute("href") ?? "")"""


@pytest.mark.stress
def test_an_empty_trace_of_what_is_called_too_often_leads_to_one_of_everything(page: Page, window: Served) -> None:
    opened(page, window, "/")
    named = {"trace": {"id": "file-x", "name": "x.parquet"}, "target": "pid-1-2"}
    for calls, omitted, link in ((0, [{"function": "f"}], "/target/pid-1-2/trace?all=1"), (1, [{}], ""), (0, [], "")):
        report = {"kept": True, "text": "", "trace": {"calls": calls, "omitted": omitted}}
        assert page.evaluate(TRACED, {**named, "report": report}) == link


def test_a_trace_is_recorded_and_shown_by_keyboard_alone(
    page: Page, window: Served, asking: Asking, loop: Loop, kept: Path
) -> None:
    opened(page, window, f"/target/{asking.target(loop.pid)}")
    page.get_by_role("link", name="Trace its calls").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Trace of work")
    for label, event in (("Begin at", "call:work:ascending"), ("End at", "return:work:ascending:500")):
        reach(page, page.get_by_label(label))
        page.keyboard.press("Control+a")
        page.keyboard.type(event)
    reach(page, page.get_by_label("Follow only"))
    page.keyboard.type("work:ascending")
    reach(page, page.get_by_label("Also what is called so often"))
    page.keyboard.press("Space")
    line = page.get_by_label("Command line")
    words = "--start call:work:ascending --stop return:work:ascending:500 --scope work:ascending --all -o"
    expect(line).to_contain_text(f"gilk trace -p {loop.pid} {words}")
    suits(page, "a trace to be begun")
    heights = page.locator(".field.line").evaluate_all("all => all.map(one => one.clientHeight)")
    assert len(heights) == 5 and max(heights) < 100, heights
    narrow(page, "a trace to be begun")
    assert not differences(loop.pid), "nothing is written before it begins"
    begin = page.get_by_role("button", name="Begin")
    expect(begin).to_be_enabled()
    reach(page, begin)
    page.keyboard.press("Enter")
    expect(page.get_by_text("The trace has come to its end.")).to_be_visible()
    expect(page.get_by_text("the code was compared: it is what it was")).to_be_visible()
    expect(page.get_by_label("Report")).to_contain_text("from call:work:ascending to return:work:ascending:500")
    suits(page, "a trace that is over")
    narrow(page, "a trace that is over")
    assert clean(loop)
    page.get_by_role("link", name="Time line").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("work-")
    (file,) = kept.glob("*.parquet")
    asked = "select count(*) as n, min(function) as f, max(function) as l from calls"
    done = run_gilk("query", "--json", file, asked)
    (row,) = json.loads(done.stdout)["rows"]
    assert row == [500, "ascending", "ascending"]


def test_the_command_that_is_shown_makes_the_same_trace(asking: Asking, loop: Loop, tmp_path: Path) -> None:
    query = "start=call:work:ascending&stop=return:work:ascending:50&scope=work:ascending&all=1"
    found = asking.get(f"/target/{asking.target(loop.pid)}/trace.json?{query}")
    assert found["problem"] is None and found["acts"]
    words = shlex.split(found["command"])
    done = run_gilk(*words[1:-1], tmp_path / "same.parquet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["trace"]["states"]["whole"] == 50
    compile(found["python"], "python", "exec")
    written = {"output": repr(words[-1]), "stop": "'return:work:ascending:50'", "scope": "['work:ascending']"}
    assert all(f"{name}={value}" in found["python"] for name, value in written.items())


@pytest.mark.stress
def test_the_button_take_out_ends_a_trace(page: Page, window: Served, asking: Asking, loop: Loop) -> None:
    query = "start=now&stop=exit&scope=work:ascending&depth=1"
    opened(page, window, f"/target/{asking.target(loop.pid)}/trace?{query}")
    expect(page.get_by_label("Levels of calls")).to_have_value("1")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("It is following …")).to_be_visible()
    page.get_by_role("button", name="Take out").click()
    expect(page.get_by_text("You ended it.")).to_be_visible()
    expect(page.get_by_label("Report")).to_contain_text("from now to the end")
    assert clean(loop)


@pytest.mark.parametrize(
    ("event", "slug"),
    seldom([(CANARY, "bad-event"), ("signal:USR1", "not-granted"), ("key:alt-f", "not-granted"),
            ("whenever", "bad-event")], 1),
)  # fmt: skip
def test_a_wrong_event_is_shown_and_prevents_the_trace(
    page: Page, window: Served, asking: Asking, loop: Loop, event: str, slug: str
) -> None:
    target = asking.target(loop.pid)
    opened(page, window, f"/target/{target}/trace")
    page.get_by_label("Begin at").fill(event)
    expect(page.get_by_label("Problems")).to_contain_text(slug)
    expect(page.get_by_role("button", name="Begin")).to_be_disabled()
    answer = asking.post("/session/trace", target=target, **{**ASKED, "start": event})
    assert answer["error"]["slug"] == slug


@pytest.mark.parametrize(("wrong", "slug"), [
    ({"scope": [1]}, "bad-request"), ({"scope": ["x"] * 101}, "bad-request"), ({"depth": -1}, "bad-request"),
    ({"depth": True}, "bad-request"), ({"file": "/tmp/x"}, "bad-request"), ({"scope": ["a\0b"]}, "bad-request"),
    ({"scope": ["\ud800"]}, "bad-request"), ({"scope": [":"]}, "bad-scope"),
    ({"scope": ["nothing_here"]}, "nothing-to-follow"), ({"start": "call:nothing_here"}, "no-such-function"),
    ({"target": "pid-1-1"}, "target-changed"), ({"target": "kernel"}, "not-granted"),
])  # fmt: skip
def test_refused_traces_change_nothing(
    asking: Asking, loop: Loop, kept: Path, wrong: dict[str, Any], slug: str
) -> None:
    before = sorted(kept.iterdir())
    answer = asking.post("/session/trace", **{"target": asking.target(loop.pid), **ASKED, **wrong})
    assert answer["error"]["slug"] == slug, answer
    assert sorted(kept.iterdir()) == before and not differences(loop.pid)


def test_the_process_that_records_a_trace_may_be_killed(asking: Asking, loop: Loop) -> None:
    begun = asking.post("/session/trace", target=asking.target(loop.pid), **{**ASKED, "stop": "exit"})
    os.kill(begun["host"], signal.SIGKILL)
    assert "was killed" in ended(asking, begun["number"])["end"]
    assert clean(loop)


def test_the_end_of_the_traced_process_ends_the_trace(kept: Path, tmp_path: Path) -> None:
    loop = Loop([build("work")])
    with served(tmp_path, "--pid", str(loop.pid), "--traces", kept) as window:
        asking = Asking(window)
        begun = asking.post("/session/trace", target=asking.target(loop.pid), **{**ASKED, "stop": "exit"})
        assert wait_for(lambda: asking.get(f"/session/{begun['number']}.json").get("records"))
        loop.finish()
        found = ended(asking, begun["number"])
        assert found["end"] == "the trace has come to its end" and found["report"]["kept"]
        assert asking.get(f"/file/{found['trace']['id']}/tree.json")["threads"]


def test_without_a_directory_for_traces_only_the_command_is_shown(loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid)) as window:
        asking = Asking(window)
        target = asking.target(loop.pid)
        assert asking.get(f"/target/{target}/trace.json")["folder"] == ""
        assert asking.post("/session/trace", target=target, **ASKED)["error"]["slug"] == "not-granted"


def test_a_read_only_window_begins_no_trace(loop: Loop, kept: Path, tmp_path: Path) -> None:
    before = sorted(kept.iterdir())
    with served(tmp_path, "--pid", str(loop.pid), "--traces", kept, "--read-only") as window:
        asking = Asking(window)
        target = asking.target(loop.pid)
        assert not asking.get(f"/target/{target}/trace.json")["acts"]
        assert asking.post("/session/trace", target=target, **ASKED)["error"]["slug"] == "read-only"
    assert sorted(kept.iterdir()) == before


def test_a_killed_server_leaves_no_probes(kept: Path, loop: Loop, tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(loop.pid), "--traces", kept) as window:
        asking = Asking(window)
        asking.post("/session/trace", target=asking.target(loop.pid), **{**ASKED, "stop": "exit"})
        window.process.kill()
        window.process.wait()
        assert clean(loop)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces in a window: the list, their time line with mouse and keyboard, and the differences of two."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from gilk.web.grants import identity_of_file
from tests.behaviour.harness import run_gilk
from tests.trace.machine import nested, write
from tests.web.labs import descendants
from tests.web.served import PATIENCE, Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'
LEAF = ("d", 10)
#: A call as (function, ns in itself, *calls); every number below follows from this.
CALLS = ("a", 1000, ("b", 400, LEAF, LEAF), ("c", 2000), ("b", 500, ("k:sys", 300)))
OTHER = ("a", 1000, ("b", 400, LEAF), ("c", 9000), ("b", 500, ("k:sys", 300)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("traces")
    write(place / "small.parquet", nested(CALLS, CALLS) + nested(("c", 100), tid=2, start=100_000))
    write(place / "other.parquet", nested(OTHER, OTHER))
    write(place / "many.parquet", many())
    write(place / "strange.parquet", nested((CANARY, 100, ("</style>\u202e\x01", 50), ("y" * 5000, 20))))
    (place / "broken.parquet").write_bytes(b"PAR1" + b"\xff" * 5000 + b"PAR1")
    return place


def many() -> list[tuple[int, int, int, str, str, str, int]]:
    """The records of twenty thousand short calls, and a longer one that only a search would find."""
    short = [("b", 40)] * 10_000
    return nested(("a", 1000, *short, ("k:x", 41), *short))


@pytest.fixture(scope="module")
def window(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--files", folder) as found:
        yield found


def settled(page: Page) -> None:
    expect(page.locator("#line[data-settled=yes]")).to_be_visible()


def line(page: Page, window: Served, folder: Path, name: str, query: str = "") -> None:
    opened(page, window, f"/file/{identity_of_file(folder / name)}/timeline{query}")
    settled(page)


def test_a_time_line_is_used_by_mouse(page: Page, window: Served, folder: Path) -> None:
    opened(page, window, "/traces")
    suits(page, "the files")
    narrow(page, "the files")
    page.get_by_role("link", name="small.parquet").click()
    settled(page)
    figures = page.get_by_role("table", name="Functions in view").locator("tbody tr")
    expect(figures).to_have_count(5)
    expect(figures.first).to_contain_text("c3")
    box = page.locator("#line").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 4, box["y"] + 24 + 20 + 8)  # the first row of the first thread
    call = page.get_by_label("The call")
    expect(call.get_by_role("heading", name="a", exact=True)).to_be_visible()
    expect(call).to_contain_text("took4.22 µs")
    expect(call).to_contain_text("in itself1.00 µs")
    expect(call.get_by_role("table", name="Its longest calls").locator("tbody tr")).to_have_count(3)
    suits(page, "a call")
    call.get_by_role("button", name="c", exact=True).click()
    expect(call.get_by_role("heading", name="c", exact=True)).to_be_visible()
    expect(call).to_contain_text("calls3")
    address = page.url
    page.get_by_role("button", name="Closer").click()
    expect(page).not_to_have_url(address)
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.wheel(0, -600)
    expect(page.locator("#where")).to_contain_text("of 10")
    narrow(page, "a time line")
    page.reload()
    settled(page)
    expect(call.get_by_role("heading", name="c", exact=True)).to_be_visible()


@pytest.mark.stress
def test_a_time_line_is_used_by_keyboard(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    opened(page, window, "/traces")
    reach(page, page.get_by_role("link", name="small.parquet"))
    page.keyboard.press("Enter")
    settled(page)
    reach(page, page.get_by_label("Find a function"))
    page.keyboard.type("sys")
    page.keyboard.press("Enter")
    call = page.get_by_label("The call").locator("h2")
    expect(call).to_have_text("sys")
    reach(page, page.locator("#line"))
    for key, name in [("ArrowUp", "b"), ("ArrowLeft", "c"), ("ArrowLeft", "b"), ("ArrowDown", "d"), ("ArrowUp", "b"),
                      ("ArrowUp", "a"), ("ArrowDown", "c")]:  # fmt: skip
        page.keyboard.press(key)
        expect(call).to_have_text(name)
    expect(page.locator("#line")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#where")).to_contain_text("2.40 µs of")
    page.keyboard.press("Escape")
    expect(call).to_have_count(0)
    for key in ("0", "+", "+", "-", "ArrowRight", "Home", "End", "PageDown", "PageUp"):
        page.keyboard.press(key)
    settled(page)
    expect(page.locator("#where")).to_contain_text("of 100")


def numbers(tile: dict[str, Any]) -> list[tuple[float, float, int, int, int, int, int]]:
    """The rows of a tile, whose columns docs/cli/web.md describes."""
    data, count = base64.b64decode(tile["data"]), tile["calls"]
    columns, at = [], 0
    for letter, size in (("d", 8), ("d", 8), ("I", 4), ("I", 4), ("I", 4), ("B", 1), ("B", 1)):
        columns.append(struct.unpack(f"<{count}{letter}", data[at : at + size * count]))
        at += size * count
    assert at == len(data)
    return list(zip(*columns, strict=True))


COLOURS = """symbols => import(document.querySelector("script").src.replace("main.js", "tiles.js"))
    .then(({ palette }) => palette(symbols, false))"""
PIXELS = """places => {
    const line = document.getElementById("line");
    const copy = new OffscreenCanvas(line.width, line.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(line, 0, 0);
    return places.map(([x, y]) => [...copy.getImageData(x, y, 1, 1).data].slice(0, 3));
}"""


@pytest.mark.stress
def test_the_canvas_has_the_calls(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    """The middle of each call that is wide enough to be seen has its function's colour, and the background has none."""
    line(page, window, folder, "small.parquet")
    base = f"/file/{identity_of_file(folder / 'small.parquet')}/timeline"
    head = asking.get(base + ".json")
    colours = dict(zip((name for name, _, _ in head["symbols"]), page.evaluate(COLOURS, head["symbols"]), strict=True))
    for part, seen in [(1, {"a", "b", "c"}), (10, {"a", "b", "c", "sys"}), (100, {"b", "d"})]:
        line(page, window, folder, "small.parquet", f"?t=0-{head['span'] // part}")
        width = page.locator("#line").evaluate("element => element.clientWidth")
        calls = [asking.get(f"{base}/call.json?call={number}") for number in range(head["calls"])]
        scale = width / (head["span"] // part)
        ends = {one["call"]: (one["start"] + one["duration"]) * scale for one in calls}
        wide = [one for one in calls if one["duration"] * scale >= 4 and ends[one["call"]] < width]
        assert {one["function"] for one in wide} == seen
        places = [[int(ends[one["call"]] - one["duration"] * scale / 2),
                   24 + 20 + 18 * one["row"] + 3 + 20 * (one["row"] > 2)] for one in wide]  # fmt: skip
        found = page.evaluate(PIXELS, places)
        assert found == [colours[one["function"]] for one in wide]
    assert page.evaluate(PIXELS, [[3, 24 + 20 + 18 + 9]]) == [[255, 255, 255]], "before the first call of b"


def test_a_page_shows_the_content_of_its_json(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    line(page, window, folder, "small.parquet")
    base = f"/file/{identity_of_file(folder / 'small.parquet')}/timeline"
    head = asking.get(base + ".json")
    assert head["calls"] == 2 * 7 + 1 and [each["rows"] for each in head["tracks"]] == [3, 1]
    assert [each["name"] for each in head["tracks"]] == ["t1 (process 1)", "t2 (thread 2 of process 1)"]
    shown = json.loads(run_gilk("show", "--json", "--table", str(folder / "small.parquet")).stdout)["functions"]
    assert {(row["function"], row["self"]) for row in asking.get(f"{base}/view.json?from=0&to={head['span'] + 1}")[
        "functions"]} == {(row["function"], row["self"]) for row in shown}  # fmt: skip
    zoom = max(0, (head["span"] // 1160).bit_length())
    found = numbers(asking.get(f"{base}/tile.json?zoom={zoom + 2}&number=0&chunk=0"))
    assert sum(row[3] for row in found) == head["calls"]
    assert sum(row[1] for row in found if head["symbols"][row[4]][0] == "c") >= 2000


def test_a_rare_call_is_found_among_many(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    base = f"/file/{identity_of_file(folder / 'many.parquet')}/timeline"
    span = asking.get(base + ".json")["span"]
    zoom = (span // 512).bit_length()
    whole = numbers(asking.get(f"{base}/tile.json?zoom={zoom}&number=0&chunk=0"))
    assert sum(row[3] for row in whole) == 20_002 and len(whole) < 1025
    rare = numbers(asking.get(f"{base}/tile.json?zoom={zoom}&number=0&chunk=0&q=X"))
    assert [(row[1], row[3]) for row in rare] == [(41, 1)]
    line(page, window, folder, "many.parquet", "?q=x")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_label("The call").locator("h2")).to_have_text("x")
    expect(page.get_by_label("The call")).to_contain_text("took41 ns")
    page.get_by_label("Find a function").fill("nothing of that name")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_label("The call")).to_contain_text("No function of the trace has")


def test_two_traces_are_compared(page: Page, window: Served, folder: Path) -> None:
    opened(page, window, "/traces")
    page.get_by_label("Compare A").select_option("small.parquet")
    page.get_by_label("with B").select_option("other.parquet")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("They differ.")).to_be_visible()
    expect(page.get_by_role("table", name="Calls only in A")).to_contain_text("d")
    words = ["diff", str(folder / "small.parquet"), str(folder / "other.parquet")]
    printed = page.get_by_role("region", name="Text").inner_text().replace("\xa0", " ")
    assert printed.split() == run_gilk(*words, "--limit", "100").stdout.split()
    a, b = page.get_by_label("Time line of A"), page.get_by_label("Time line of B")
    for line_ in (a, b):
        expect(line_).to_have_attribute("data-settled", "yes")
    suits(page, "two traces")
    narrow(page, "two traces")
    page.set_viewport_size({"width": 400, "height": 740})
    for region in page.get_by_role("region", name="Table: ").all():
        assert region.evaluate("one => one.scrollWidth <= one.clientWidth"), "what shows a call is in view, too"
    page.set_viewport_size({"width": 1200, "height": 900})
    places = page.get_by_role("region", name="Both time lines").get_by_role("status").filter(has_text=" of ")
    reach(page, b)
    for key in ("+", "+", "ArrowRight"):
        before = places.all_inner_texts()
        page.keyboard.press(key)
        for one in (0, 1):
            expect(places.nth(one)).not_to_have_text(before[one])
        assert len(set(places.all_inner_texts())) == 1, "moving one moves the other"
    expect(page).to_have_url(re.compile(r"[?&]t=\d+-\d+"))
    moved = places.first.inner_text()
    page.reload()
    expect(places).to_have_text([moved, moved])
    a.hover()
    page.mouse.wheel(0, 300)
    expect(places.last).not_to_have_text(moved)
    assert len(set(places.all_inner_texts())) == 1
    page.get_by_role("button", name="d in both").first.click()
    expect(page.get_by_label("The call in A").locator("h2")).to_have_text("d")
    expect(page.get_by_label("The call in B").locator("h2")).to_have_text("d")
    expect(page.get_by_label("Find a function")).to_have_value("d")
    assert len(set(places.all_inner_texts())) == 1
    suits(page, "a call in both")
    page.get_by_role("link", name="d in B").first.click()
    settled(page)
    expect(page.get_by_label("Find a function")).to_have_value("d")
    page.go_back()
    page.get_by_label("so many times as long").fill("2")
    page.get_by_role("button", name="Compare").press("Enter")
    expect(page.get_by_role("table", name="Slower in B")).to_contain_text("c")


def test_a_trace_compared_with_itself_has_no_differences(asking: Asking, folder: Path) -> None:
    query = f"a={identity_of_file(folder / 'small.parquet')}&b={identity_of_file(folder / 'small.parquet')}"
    found = asking.get(f"/diff.json?{query}")
    assert found["same"] is True and found["text"].startswith("the same calls in the same order")
    whole = json.loads(run_gilk("diff", "--json", *found["command"].split()[2:]).stdout)
    assert {name: found[name] for name in whole} == whole


def worker_of(window: Served) -> int:
    """The process that reads files for this window."""
    path = Path(f"/proc/{window.process.pid}/task/{window.process.pid}/children")
    for pid in path.read_text().split():
        if b"gilk.web.file_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise AssertionError("no process reads files")


def test_reading_a_trace_is_given_up_when_the_client_disconnects(window: Served, folder: Path, asking: Asking) -> None:
    names = ("small.parquet", "many.parquet")
    small, many = (f"/file/{identity_of_file(folder / name)}/timeline.json" for name in names)
    assert asking.get(small)["calls"] == 15
    pid = worker_of(window)
    os.kill(pid, signal.SIGSTOP)
    ended = os.pidfd_open(pid)
    with socket.create_connection(("127.0.0.1", window.port)) as leaving:
        head = (f"Host: 127.0.0.1:{window.port}", f"Authorization: Bearer {asking.token}", "", "")
        lines = (f"GET {many} HTTP/1.1", *head)
        leaving.sendall("\r\n".join(lines).encode())
    assert select.select([ended], [], [], PATIENCE)[0], "a worker that is stopped is killed when its browser has gone"
    os.close(ended)
    assert asking.get(many)["calls"] == 20_002


@pytest.mark.stress
def test_the_progress_of_reading_is_shown(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    asking.get(f"/file/{identity_of_file(folder / 'small.parquet')}/timeline.json")
    pid = worker_of(window)
    page.route("**/timeline/progress.json", lambda route: route.fulfill(json={"done": 750_000, "of": 20_000_000}))
    os.kill(pid, signal.SIGSTOP)
    try:
        page.goto(f"http://127.0.0.1:{window.port}/file/{identity_of_file(folder / 'many.parquet')}/timeline")
        expect(page.locator("#far")).to_contain_text("750\u202f000 of 20\u202f000\u202f000 records")
        suits(page, "a trace that is being read")
        narrow(page, "a trace that is being read")
    finally:
        os.kill(pid, signal.SIGCONT)
    settled(page)
    page.unroute_all()


def test_hostile_names_are_shown_as_text(page: Page, window: Served, folder: Path) -> None:
    line(page, window, folder, "strange.parquet")
    expect(page.get_by_role("table", name="Functions in view")).to_contain_text(CANARY)
    page.locator("#line").focus()
    page.keyboard.press(" ")
    expect(page.get_by_label("The call").locator("h2")).to_have_text(CANARY)
    expect(page.get_by_label("The call")).to_contain_text("</style>\\u202e\\u0001")
    assert page.locator("#main img").count() == 0
    narrow(page, "strange names")


BASES = ["", "/tile", "/call", "/view", "/find"]


@pytest.mark.parametrize("base", BASES)
def test_files_that_are_no_traces_are_refused(asking: Asking, folder: Path, base: str) -> None:
    chance = random.Random(1)
    good = (folder / "small.parquet").read_bytes()
    for number in range(6):
        data = bytearray(good)
        for _ in range(1 + 10 * number):
            data[chance.randrange(len(data))] = chance.randrange(256)
        (folder / "bent.parquet").write_bytes(data[: len(data) - 3 * number])
        found = asking.get(f"/file/{identity_of_file(folder / 'bent.parquet')}/timeline{base}.json")
        assert isinstance(found, dict)
    for path, slug in [(folder / "broken.parquet", "bad-trace"), (folder / "none.parquet", "no-such-file"),
                       (folder / "x.txt", "not-samples"), (Path("/etc/passwd"), "not-granted"),
                       (folder / ".." / "x.parquet", "not-granted")]:  # fmt: skip
        assert asking.get(f"/file/{identity_of_file(path)}/timeline{base}.json")["error"]["slug"] == slug, path
    (folder / "bent.parquet").unlink()
    assert asking.get(f"/file/{identity_of_file(folder / 'small.parquet')}/timeline.json")["calls"] == 15


@pytest.mark.parametrize("query", [
    "tile.json?zoom=63", "tile.json?zoom=-1", "tile.json?zoom=99999999999", "tile.json?number=999999999999999999",
    "tile.json?chunk=-1", "tile.json?zoom=x", "call.json?call=15", "call.json?call=-1", "view.json?from=1e9",
    "find.json?q=" + "a" * 300,
])  # fmt: skip
def test_malformed_numbers_are_refused(asking: Asking, folder: Path, query: str) -> None:
    found = asking.get(f"/file/{identity_of_file(folder / 'small.parquet')}/timeline/{query}")
    assert found["error"]["slug"] in ("bad-request", "bad-range", "no-such-call")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_files_are_read_without_the_rights_of_root(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If root came by sudo, the process that reads a file is the invoking user's; it may only read. The file lies in a
    directory that only root may enter."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    shutil.copy(folder / "small.parquet", locked)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65533")
    with served(tmp_path, "--files", locked) as window:
        asking = Asking(window)
        found = asking.get(f"/file/{identity_of_file(locked / 'small.parquet')}/timeline.json")
        assert found["tracks"], found
        readers = [
            pid
            for pid in descendants(window.process.pid)
            if b"gilk.web.file_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert readers
        for pid in readers:
            lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            assert lines["Uid"].split() == ["65534"] * 4 and lines["Gid"].split() == ["65533"] * 4
            assert {int(lines[name], 16) for name in ("CapEff", "CapPrm")} == {4} and lines["NoNewPrivs"] == "1"
            assert lines["Groups"].strip() == "" and int(lines["CapInh"], 16) == 0

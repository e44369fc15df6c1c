# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values and widgets in notebooks: a notebook that a kernel executes; and the scripts of widgets in a real browser,
with the widgets themselves at the other end."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import BrowserContext, Page, expect

import gilk
import gilk.notebook
from gilk.notebook import Cfg, Counters, LiveAggregations, Timeline
from gilk.notebook.bundle import script
from gilk.render import html
from tests.behaviour.harness import ROOT, Loop, wait_for
from tests.programs.build import build
from tests.trace.machine import nested, write
from tests.web.windows import browser, suits

__all__ = ["browser"]  # fixture
PATIENCE = 120  # seconds
CANARY = '<img src=x onerror="window.canary=1">'


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example, executed by a kernel in a directory of its own."""
    book = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    return NotebookClient(book, timeout=PATIENCE, resources=place).execute()


def outputs(executed: Any, begins: str) -> list[dict[str, str]]:
    """The data that a cell has shown, by type."""
    cell = next(each for each in executed.cells if each.source.startswith(begins))
    return [each["data"] for each in cell.outputs if "data" in each]


def test_a_notebook_shows_tables_pictures_and_widgets(executed: Any) -> None:
    (graph,) = outputs(executed, "gilk.cfg(")
    blocks = len(gilk.cfg("/bin/bash", "legal_number").nodes)
    assert graph["text/html"].count('<g class="block">') == blocks > 3
    assert graph["text/plain"] == f"<Graph of bash:legal_number: {blocks} blocks>"
    (report,) = outputs(executed, "tracing =")
    assert "from now to exit" in report["text/html"] and "from now to exit" in report["text/plain"]
    for begins in ("target =", "counters =", "gilk.notebook.Timeline"):
        assert "application/vnd.jupyter.widget-view+json" in outputs(executed, begins)[0]
    cell = next(each for each in executed.cells if each.source.startswith("while not"))
    assert cell.outputs[0]["text"] == "restored: True\n"


def test_html_of_a_value_is_text_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = ["</p>\u202e\x1b" + "y" * 10**6]
    report = gilk.RunReport(counts={f"{CANARY}{n}:entry": n for n in range(9000)}, notes=notes)
    found = html.run_report(report)
    assert "<img" not in found and "&lt;img" in found and "\x1b" not in found
    assert len(found.encode()) < html.MOST
    graph = gilk.cfg(str(build("work")), "dispatch")
    size = len(html.graph(graph))
    monkeypatch.setattr(html, "MOST", size // 2)
    assert "gilk.notebook.Cfg" in html.graph(graph) and len(html.graph(graph)) < size // 2


def test_a_widget_without_its_packages_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(gilk.GilkError) as caught:
        gilk.notebook.__getattr__("Cfg")
    assert caught.value.slug == "notebook-missing"


@pytest.mark.parametrize("entry", ["timeline_widget.js", "graph_widget.js", "live_widget.js"])
def test_a_script_is_small_and_loads_nothing_from_elsewhere(entry: str) -> None:
    text = script(entry)
    assert len(text) <= 100_000
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text


FRAME = "<!doctype html><html lang=en><title>Notebook</title><body><main><h1>Notebook</h1><div id=el></div></main>"


class Notebook:
    """A page that does a notebook's part for a widget: it loads its script, and carries messages both ways."""

    def __init__(self, page: Page, loop: asyncio.AbstractEventLoop) -> None:
        self.page, self._loop = page, loop
        self.picked: list[str] = []
        self._sent: list[Any] = []

    def made(self, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, called where a notebook's kernel would call it."""

        async def making() -> Any:
            return make()

        return asyncio.run_coroutine_threadsafe(making(), self._loop).result(PATIENCE)

    def show(self, widget: Any) -> None:
        widget.send = lambda message, _buffers=None: self._sent.append(message)
        self.page.route("http://notebook.test/**", lambda route: route.fulfill(
            body=FRAME, content_type="text/html"))  # fmt: skip
        self.page.expose_function("heard", lambda text: self._heard(widget, json.loads(text)))
        self.page.expose_function("picked", lambda points: self.picked.extend(points))  # noqa: PLW0108
        self.page.goto("http://notebook.test/")
        self.page.evaluate(HOST, [widget._esm, widget.address])

    def close(self, widget: Any) -> None:
        """Close a widget, and wait until nothing answers for it any more."""
        self.made(widget.close)
        asyncio.run_coroutine_threadsafe(asyncio.wait((widget._ending,)), self._loop).result(PATIENCE)

    def _heard(self, widget: Any, message: Any) -> str:
        """The text of what Python has sent since the last message, with the answer to this one."""
        if "id" in message:
            answer = asyncio.run_coroutine_threadsafe(widget._answer(message), self._loop)
            answer.result(PATIENCE)
        sent, self._sent[:] = [*self._sent], []
        return json.dumps(sent)


HOST = """async ([esm, address]) => {
  const place = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const { default: widget } = await import(place);
  let take = () => undefined;
  const deliver = (text) => JSON.parse(text).forEach((message) => take(message));
  const model = {
    get: () => address, on: (_what, each) => { take = each; }, off: () => undefined,
    send: async (message) => deliver(await window.heard(JSON.stringify(message))),
    set: (_name, points) => { model.points = points; }, save_changes: () => window.picked(model.points),
  };
  window.renew = async () => deliver(await window.heard("{}"));
  window.leave = await widget.render({ model, el: document.getElementById("el") });
}"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread, as a notebook's kernel has one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)


@pytest.fixture
def notebook(browser: Any, kernel: asyncio.AbstractEventLoop) -> Iterator[Notebook]:
    context: BrowserContext = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield Notebook(page, kernel)
    assert page.evaluate("window.canary === undefined")
    context.close()
    assert not said, said


def test_a_trace_is_read_in_a_widget(notebook: Notebook, tmp_path: Path) -> None:
    write(tmp_path / "one.parquet", nested(("a", 1000, ("b", 400), (CANARY, 2000), ("b", 500))))
    widget = notebook.made(lambda: Timeline(tmp_path / "one.parquet"))
    notebook.show(widget)
    page = notebook.page
    expect(page.locator("#line[data-settled=yes]")).to_be_visible()
    expect(page.get_by_role("table", name="Functions in view").locator("tbody tr")).to_have_count(3)
    suits(page, "a trace in a notebook")
    page.get_by_role("link", name="Tree").click()
    page.get_by_role("button", name="a", exact=True).click()
    expect(page.locator("td.name")).to_have_count(3)
    expect(page.locator(".gilk")).to_contain_text(CANARY)
    page.get_by_role("link", name="SQL").click()
    page.get_by_role("button", name="By function").click()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("table", name="Answer", exact=True).locator("tbody tr")).to_have_count(3)
    assert page.url == "http://notebook.test/", "a widget leaves the notebook's address alone"
    assert not page.get_by_text("All files").count(), "a widget has no link to what it has not"
    page.evaluate("window.leave()")
    notebook.close(widget)


def test_a_session_is_watched_in_widgets(notebook: Notebook) -> None:
    with Loop([build("work")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("work:dispatch:blocks", gilk.count)
        widget = notebook.made(lambda: Cfg(f"pid:{loop.pid}", "work:dispatch", session))
        notebook.show(widget)
        page = notebook.page
        expect(page.locator(".graph .block")).to_have_count(len(gilk.cfg(str(build("work")), "dispatch").nodes))
        page.get_by_role("button", name="@0:pre", exact=False).first.click()
        expect(page.get_by_text("now in the widget's points")).to_be_visible()
        assert notebook.picked == ["work:dispatch:@0:pre=count"]
        assert wait_for(lambda: sum(session.counts().values()))
        widget._looked = 0.0
        widget.update()
        page.evaluate("window.renew()")
        expect(page.locator("g.heat6").first).to_be_attached()
        suits(page, "a graph in a notebook")
        page.evaluate("window.leave()")
        notebook.close(widget)


def test_counts_and_aggregations_are_shown_in_widgets(notebook: Notebook) -> None:
    with Loop([build("work")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("work:dispatch:entry", gilk.count)
        assert wait_for(lambda: session.counts()["work:dispatch:entry"])
        session.close()
        notebook.show(notebook.made(lambda: Counters(session)))
        page = notebook.page
        count = session.counts()["work:dispatch:entry"]
        row = page.get_by_role("table", name="Hits of each point").locator("tbody tr")
        expect(row).to_contain_text("work:dispatch:entry")
        assert "".join(row.locator("td.number").first.inner_text().split()) == str(count)
        expect(page.get_by_text("It is over.")).to_be_visible()


class Looked:
    """A session that counts how often its counts are looked at."""

    closed = False
    looks = 0

    def counts(self) -> dict[str, int]:
        self.looks += 1
        return {"work:dispatch:entry": self.looks}

    @property
    def drain(self) -> Looked:
        return self

    def drops(self) -> int:
        return 0


def test_a_widget_looks_at_its_session_once_a_tick_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    session, again = Looked(), list[bool]()
    widget = Counters(session)
    monkeypatch.setattr(widget, "_again", lambda: again.append(True))
    widget._tick()
    assert (session.looks, again) == (1, [True])
    session.closed, widget._looked = True, 0.0
    widget._tick()
    assert (session.looks, again) == (2, [True])


@pytest.mark.stress
def test_aggregations_are_shown_in_a_widget(notebook: Notebook) -> None:
    text = "pid$target:work:dispatch:entry { @calls = quantize(arg0); n++; } pid$target:work:dispatch:entry /n == 100/"
    text += " { exit(0); }"
    with Loop([build("work")]) as loop, gilk.dtrace(text, pid=loop.pid) as session:
        widget = notebook.made(lambda: LiveAggregations(session))
        for event in session:
            widget.update(event)
        notebook.show(widget)
        expect(notebook.page.get_by_role("heading", name="@calls quantize()")).to_be_visible()
        expect(notebook.page.locator("figcaption")).to_contain_text("values")
        suits(notebook.page, "aggregations in a notebook")

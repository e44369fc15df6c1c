# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure the window in a headless Chromium: how long people wait for it, and what it costs.

Each figure is the median of some repetitions, with the 95th percentile beside it. Chromium draws without a
GPU, so that frames are comparable from machine to machine.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import long_trace
from bench.measure import Row
from bench.web_client import MeasuredWindow, window

TIMES = 20  # repetitions of each figure
CALLS = 1_000_000  # calls of the trace whose frames are measured
MANY_BLOCKS = "yyparse"  # bash's largest function
FUNCTIONS = 48_305  # of the library in which is searched; a kernel with its modules has twice as many
QUERIES = ("e", "mem", "alloc_p", "sys_read", "xq")
WORDS = ("sys", "vfs", "tcp", "mem", "page", "pipe", "lock", "alloc", "free", "read", "write", "poll", "init", "exit")
PROGRAM = "pid$target:libc:mal"  # a D program as it is typed


def rows() -> Iterator[Row]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        if found is None:
            yield Row("the pages", "gilk web", None, "ms", "no Chromium: tools/setup test installs it")
            return
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield from _beginning(Path(place))
        with _shown(Path(place)) as (served, pid):
            context = browser.new_context(viewport={"width": 1400, "height": 900})
            context.new_page().goto(served.address)
            served.token = _token(context.pages[0])
            page = context.new_page()
            target = next(one["id"] for one in served.get("/index.json")["processes"] if one["pid"] == pid)
            yield from _pages(page, served)
            yield from _search(page, served)
            yield from _graph(page, served)
            yield from _d(served, target)
            yield from _frames(page, served)
            yield from _memory(page, served, context)
        browser.close()
    yield from _weight()


@contextmanager
def _shown(place: Path) -> Iterator[tuple[MeasuredWindow, int]]:
    """A window with a process, bash, and a long trace."""
    trace = long_trace.file(CALLS)
    shell = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (place / "files").mkdir()
        _library(place / "files" / "many.so")
        options = ("--pid", str(shell.pid), "--files", place / "files", "--files", trace.parent, "--files", "/bin")
        with window(place, *options) as served:
            yield served, shell.pid
    finally:
        shell.kill()
        shell.wait()


def _library(path: Path) -> None:
    """A library of many functions, with names that have words in common."""
    names = ("_".join(sorted(WORDS, key=lambda word: hash_of(f"{n}{word}"))[:3]) + f"_{n}" for n in range(FUNCTIONS))
    lines = [f".globl {name}\n.type {name},@function\n{name}: ret\n.size {name},.-{name}" for name in names]
    source = path.with_suffix(".s")
    source.write_text("\n".join([*lines, ".section .note.GNU-stack", ""]))
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", path, source], check=True)


def hash_of(text: str) -> int:
    """A number that is the same in each run."""
    return zlib.crc32(text.encode())


def _token(page: Any) -> str:
    page.locator("body[data-ready=yes]").wait_for()
    return str(page.evaluate("sessionStorage.getItem('gilk-token')"))


def _row(what: str, values: list[float], goal: str, unit: str = "ms") -> Row:
    """The median of measured values, with the 95th percentile and the goal as its note."""
    ordered = sorted(values)
    last = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return Row(what, "gilk web", round(statistics.median(ordered), 1), unit, f"95 %: {last:.1f}; goal {goal}")


def _timed(act: Callable[[], Any]) -> float:
    """How many ms ``act`` takes."""
    began = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - began)


def _beginning(place: Path) -> Iterator[Row]:
    """From the command to the address."""

    def begin() -> float:
        began = time.perf_counter()
        with window(place, "--pid", str(os.getpid())):
            return 1000 * (time.perf_counter() - began)

    yield _row("the address is printed", [begin() for _ in range(5)], "600")


PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def _pages(page: Any, served: MeasuredWindow) -> Iterator[Row]:
    painted, ready = [], []
    for _ in range(TIMES):
        ready.append(_timed(lambda: _opened(page, served, "/")))
        painted.append(float(page.evaluate(PAINTED)))
    yield _row("overview: first paint", painted, "300")
    yield _row("overview: ready", ready, "500")


def _opened(page: Any, served: MeasuredWindow, path: str) -> None:
    page.goto(f"{served.base}{path}")
    page.locator("body[data-ready=yes]").wait_for()


#: Types a text into the field of functions, and returns the ms until the list that belongs to it has been painted.
TYPED = """async (text) => {
  const field = document.getElementById("q"), began = performance.now();
  const drawn = new Promise((done) => new MutationObserver((_, observer) => { observer.disconnect(); done(); })
    .observe(document.querySelector("#main .counted"), { childList: true, characterData: true, subtree: true }));
  field.value = text;
  field.dispatchEvent(new Event("input"));
  await drawn;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def _search(page: Any, served: MeasuredWindow) -> Iterator[Row]:
    """A key in the field of functions."""
    programs = served.get("/index.json")["programs"]
    many = next(one["id"] for one in programs if one["path"].endswith("/many.so"))
    _opened(page, served, f"/target/{many}/symbols")
    found = []
    for _ in range(TIMES // 4):
        for query in QUERIES:
            found.append(float(page.evaluate(TYPED, query)))
            page.evaluate(TYPED, f"{query}_")
    yield _row(f"key to painted list, {FUNCTIONS:,} functions", found, "100 at 95 %")
    base = f"/target/{many}/symbols.json?q="
    asked = [_timed(partial(served.get, base + query)) for query in QUERIES * 4]
    yield _row("of that, the answer", asked, "35")


def _graph(page: Any, served: MeasuredWindow) -> Iterator[Row]:
    programs = served.get("/index.json")["programs"]
    bash = next(one["id"] for one in programs if one["path"].endswith("/bash"))
    path = f"/target/{bash}/function"
    began = time.perf_counter()
    blocks = len(served.get(f"{path}.json?at={MANY_BLOCKS}")["blocks"])
    first = round(1000 * (time.perf_counter() - began), 1)
    yield Row(f"graph of {blocks} blocks: first answer", "gilk web", first, "ms", "with the analysis of the function")
    answers = [_timed(lambda: served.get(f"{path}.json?at={MANY_BLOCKS}")) for _ in range(TIMES)]
    yield _row(f"graph of {blocks} blocks: later answers", answers, "200 for 769 blocks")
    _opened(page, served, f"{path}?at={MANY_BLOCKS}")
    drawn = [_timed(lambda: _opened(page, served, f"{path}?at={MANY_BLOCKS}")) for _ in range(5)]
    yield _row(f"graph of {blocks} blocks: ready", drawn, "400 more")


def _d(served: MeasuredWindow, target: str) -> Iterator[Row]:
    """Answers about a D program that is written; the page waits 150 ms without a key before it asks."""
    whole = f"{PROGRAM}loc:entry {{ @ = count(); }}"
    check = [_timed(lambda: served.post(f"/target/{target}/d/check.json", text=whole)) for _ in range(TIMES)]
    yield _row("D: diagnostics", check[1:], "150")
    word = f"/target/{target}/d/words.json"
    words = [_timed(lambda: served.get(f"{word}?at={len(PROGRAM)}&text={PROGRAM.replace('$', '%24')}")) for _ in check]
    yield _row("D: completion", words[1:], "50")


#: Zooms and pans for a while, and returns the ms that each frame took to draw, and the ms between frames.
MOVED = """async () => {
  const line = document.getElementById("line"), took = [], apart = [];
  const key = (name) => line.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  let last = performance.now();
  for (const name of ["+", "+", ...Array(40).fill("ArrowRight"), "-", ...Array(40).fill("ArrowLeft"), "0"]) {
    key(name);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    took.push(Number(line.dataset.took));
    apart.push(now - last);
    last = now;
  }
  return [took, apart];
}"""


def _frames(page: Any, served: MeasuredWindow) -> Iterator[Row]:
    """Panning and zooming through a trace."""
    (file,) = (one for one in served.get("/traces.json")["files"] if one["name"] == f"calls-{CALLS}.parquet")
    _opened(page, served, f"/file/{file['id']}/timeline")
    page.locator("#line[data-settled=yes]").wait_for(timeout=600_000)
    took, apart = page.evaluate(MOVED)
    yield _row(f"time line of {CALLS:,} calls: a frame is drawn", took, "20 at 95 %")
    yield _row(f"time line of {CALLS:,} calls: from frame to frame", apart, "16.7")


def _memory(page: Any, served: MeasuredWindow, context: Any) -> Iterator[Row]:
    used = context.new_cdp_session(page).send("Runtime.getHeapUsage")["usedSize"] / 1e6
    yield Row("memory of a time line's scripts", "gilk web", round(used, 1), "MB", "goal 200 for the page")
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    yield Row("memory of the server", "gilk web", round(resident / 1000, 1), "MB", "goal 80")


def _weight() -> Iterator[Row]:
    """The bytes that a browser loads once, compressed; the window has no other files."""
    files = sorted((Path(__file__).parent.parent / "src" / "gilk" / "web" / "assets").iterdir())
    size = sum(len(gzip.compress(path.read_bytes())) for path in files) / 1000
    yield Row(
        "gilk web", "all files of the pages, gz", round(size, 1), "kB", f"{len(files)} files; goal 60 first, 220 all"
    )


if __name__ == "__main__":
    for row in rows():
        print(json.dumps([row.what, row.value, row.unit, row.note]))

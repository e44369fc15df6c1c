# SPDX-License-Identifier: LGPL-2.1-or-later
"""References for the looks of pages, at which somebody has looked: for each part of a page its brightness, and its ink,
which is the share of it that differs from the background.

Small differences, as between versions of a font, are no change; a part that is missing, moved, or of another colour is.
Run as a program, this takes the screenshots anew, for somebody to look at, and writes the references:

    python -m tests.web.looked_at DIRECTORY
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, expect, sync_playwright

from gilk.web.grants import identity_of_file
from tests.render.browser import CHROMIUM, FLAGS
from tests.trace.machine import nested, write
from tests.web.served import Served, served
from tests.web.windows import opened

PLACE = Path(__file__).parent / "looks"
COLUMNS, ROWS = 32, 24
HEIGHT = 800
WIDTHS = {"light": 1280, "dark": 1280, "narrow": 400}
MOST_MEAN = 5.0  # of 255, in brightness, over all parts
SAME_INK = 25  # of 1000, by which the ink of a part and of those around it may differ
MOST_PARTS = 0.008  # the share of parts that may be others
CALLS = ("a", 1000, ("b", 400, ("d", 10), ("d", 10)), ("c", 2000), ("b", 500, ("k:sys", 300)))
OTHER = ("a", 1000, ("b", 400, ("d", 10)), ("c", 9000), ("b", 500, ("k:sys", 300)))
PROGRAM = """
.globl main
.type main,@function
main: test %edi,%edi
je 2f
1: dec %edi
jne 1b
2: mov %edi,%eax
ret
.size main,.-main
.section .note.GNU-stack
"""
EXPERIMENT = """\
workload = { command = "true" }

[[instrument]]
points = "main:entry"
instrument = "time"
start = 0.5
stop = 2

[[instrument]]
points = "main:blocks"
instrument = "count"
"""
#: The brightness of all parts, row by row, and then their ink, of 1000 but at most 255. Runs in a page of its own.
GRID = """async ([data, columns, rows]) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(picture, 0, 0);
  const bits = pen.getImageData(0, 0, picture.width, picture.height).data;
  const of = () => new Array(columns * rows).fill(0);
  const sums = of(), counts = of(), ink = of();
  const light = (place) => 0.299 * bits[place] + 0.587 * bits[place + 1] + 0.114 * bits[place + 2];
  const back = light(4 * (picture.width * picture.height - 1));
  for (let y = 0; y < picture.height; y++) {
    for (let x = 0; x < picture.width; x++) {
      const at = Math.floor(y * rows / picture.height) * columns + Math.floor(x * columns / picture.width);
      const value = light(4 * (y * picture.width + x));
      sums[at] += value;
      ink[at] += Math.abs(value - back) > 40;
      counts[at]++;
    }
  }
  const shares = ink.map((sum, at) => Math.min(255, Math.round(1000 * sum / counts[at])));
  return [...sums.map((sum, at) => Math.round(sum / counts[at])), ...shares];
}"""


@contextmanager
def shown(place: Path) -> Iterator[tuple[Served, dict[str, str]]]:
    """A window with files that are always the same, and the addresses of its pages by name."""
    for name in ("files", "experiments"):
        (place / name).mkdir()
    (place / "x.s").write_text(PROGRAM)
    subprocess.run(["cc", "-o", place / "files" / "x", place / "x.s"], check=True)
    write(place / "files" / "one.parquet", nested(CALLS, CALLS) + nested(("c", 100), tid=2, start=100_000))
    write(place / "files" / "two.parquet", nested(OTHER, OTHER))
    (place / "experiments" / "plan.toml").write_text(EXPERIMENT)
    program, one, two = (identity_of_file(place / "files" / name) for name in ("x", "one.parquet", "two.parquet"))
    sql = urlencode({"q": "select function, count(*) as calls from calls group by function order by function"})
    addresses = {
        "overview": "/",
        "functions": f"/target/{program}/symbols?q=main", "graph": f"/target/{program}/function?at=main",
        "timeline": f"/file/{one}/timeline", "tree": f"/file/{one}/tree", "flame": f"/file/{one}/flame",
        "anomalies": f"/file/{two}/anomalies", "sql": f"/file/{one}/sql?{sql}", "diff": f"/diff?a={one}&b={two}",
        "experiment": f"/experiment/{identity_of_file(place / 'experiments' / 'plan.toml')}",
        "nothing": "/no/such/page", "refused": "/target/kernel/symbols",
    }  # fmt: skip
    options = ("--files", place / "files", "--experiments", place / "experiments", "--pid", str(2**22))
    with served(place, *options) as window:
        yield window, addresses


def picture(page: Page, window: Served, path: str, kind: str) -> bytes:
    """A screenshot of the page at that address: ``light``, ``dark`` or ``narrow``. The dark page is the light one,
    which is there already, in other colours.
    """
    page.set_viewport_size({"width": WIDTHS[kind], "height": HEIGHT})
    page.emulate_media(color_scheme="dark" if kind == "dark" else "light", reduced_motion="reduce")
    draws = path.endswith(("/timeline", "/flame")) or path.startswith("/diff")
    if kind != "dark" or draws:  # scripts have chosen their colours
        opened(page, window, path)
    if path.endswith("/timeline"):
        expect(page.locator("#line[data-settled=yes]")).to_be_visible()
    if path.startswith("/diff"):
        expect(page.locator(".line[data-settled=yes]")).to_have_count(2)
    return page.screenshot()


def grid(blank: Page, shot: bytes) -> list[int]:
    """The brightness of the parts of a screenshot, then their ink. ``blank``: a page of no server."""
    found: list[int] = blank.evaluate(GRID, [base64.b64encode(shot).decode(), COLUMNS, ROWS])
    return found


def difference(one: list[int], other: list[int]) -> str:
    """How far two pages are unlike each other; '' if they are alike."""
    parts = COLUMNS * ROWS
    mean = sum(abs(a - b) for a, b in zip(one[:parts], other[:parts], strict=True)) / parts
    changed = sorted({*_foreign(one[parts:], other[parts:]), *_foreign(other[parts:], one[parts:])})
    if mean <= MOST_MEAN and len(changed) <= MOST_PARTS * parts:
        return ""
    places = " ".join(f"{at // COLUMNS}:{at % COLUMNS}" for at in changed[:20])
    return f"{mean:.1f} of 255 darker or lighter; {len(changed)} of {parts} parts are others, by row:column {places}"


def _foreign(one: list[int], other: list[int]) -> Iterator[int]:
    """The parts whose ink is not between the least and the most of the other page's parts there and around."""
    for at, value in enumerate(one):
        row, column = divmod(at, COLUMNS)
        rows, columns = range(max(0, row - 1), min(ROWS, row + 2)), range(max(0, column - 1), min(COLUMNS, column + 2))
        around = [other[each * COLUMNS + beside] for each in rows for beside in columns]
        if not min(around) - SAME_INK <= value <= max(around) + SAME_INK:
            yield at


def reference(name: str, kind: str) -> list[int]:
    rows: list[str] = json.loads((PLACE / f"{name}.json").read_text())[kind]
    return [int(row[at : at + 2], 16) for row in rows for at in range(0, len(row), 2)]


def keep(name: str, found: dict[str, list[int]]) -> None:
    """Write a reference: a line for each row of parts, two hexadecimal digits for each."""
    text = {
        kind: ["".join(f"{each:02x}" for each in parts[row * COLUMNS :][:COLUMNS]) for row in range(2 * ROWS)]
        for kind, parts in found.items()
    }
    (PLACE / f"{name}.json").write_text(json.dumps(text, indent=1) + "\n")


def main(place: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as files, sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if not flag.startswith(("--headless", "--window-size"))]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        with shown(Path(files)) as (window, addresses):
            context, blank = browser.new_context(), browser.new_page()
            context.new_page().goto(window.address)
            page = context.new_page()
            for name, path in addresses.items():
                shots = {kind: picture(page, window, path, kind) for kind in WIDTHS}
                keep(name, {kind: grid(blank, shot) for kind, shot in shots.items()})
                for kind, shot in shots.items():
                    (place / f"{name}-{kind}.png").write_bytes(shot)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

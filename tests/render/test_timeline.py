# SPDX-License-Identifier: LGPL-2.1-or-later
"""The page that draws a trace: a browser reads its data unchanged, and names stay text."""

from __future__ import annotations

import base64
import html
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from gilk.render.timeline import page
from gilk.trace.about import Tally
from gilk.trace.reading import read
from gilk.trace.traced import Omitted, TraceDescription
from tests.render.browser import dom
from tests.trace.machine import nested, run, write

HOSTILE = [
    '<img src=x onerror="document.documentElement.dataset.pwned=1">',
    "</script><script>document.documentElement.dataset.pwned=1</script>",
    "<!--<script>",
    "@SCRIPT@@DATA@",
    "\x1b[2J\x07",
    "ключ;\u2028 b",
]


def text_of(document: str, identity: str) -> str:
    """The content of an element, without its tags."""
    found = re.search(rf'<(\w+)[^>]* id="{identity}".*?</\1>', document, re.DOTALL)
    assert found, document[-2000:]
    return html.unescape(re.sub(r"<[^>]+>", " ", found[0]))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    records = nested(("main", 100, ("work", 1000, ("k:sys_read", 600, ("k:copy", 250))), ("!hang", 50)))
    records.append((5000, 1, 1, "", "user", "gap", 0))
    omitted = (Omitted("tiny", "prog", 200, 4321),)
    tally = Tally(partial=False, drops=3, trace=TraceDescription(0, 9000, "call:main", "after:2s", "", omitted))
    return write(tmp_path / "a.parquet", records, tally)


def test_a_browser_shows_what_is_in_the_trace(small: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.html"
    made.write_text(page(read(small)))
    document = dom(made)
    assert 'data-ready="yes"' in document
    panel = text_of(document, "panel")
    for words in ("5 calls", "from call:main to after:2s", "3 records dropped", "tiny", "after 4,321 calls", "copy"):
        assert words in panel
    legend = text_of(document, "legend")
    assert "kernel" in legend
    assert "records dropped" in legend


@pytest.mark.parametrize(("command", "title"), [((), "t1 (1)"), (("gzip", "a b"), "gzip &#x27;a b&#x27;")])
def test_a_page_is_titled_by_the_command_or_the_names_of_processes(
    small: Path, command: tuple[str, ...], title: str
) -> None:
    trace = read(small)
    document = page(replace(trace, about=replace(trace.about, command=command, pids=(1,))))
    assert f"<title>{title}" in document


def test_details_of_a_call_and_a_search_are_part_of_the_address(small: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.html"
    made.write_text(page(read(small)))
    panel = text_of(dom(made, "#call=1&q=sys"), "panel")
    assert re.search(r"work\s+prog", panel)
    assert re.search(r"took\s+1\.85 µs", panel)
    assert re.search(r"in itself\s+1\.00 µs\s+54\.1 %", panel)
    assert re.search(r"began at\s+0?50 ns", panel)
    assert re.search(r"sys_read\s+1 ×\s+850 ns", panel)
    assert re.search(r"called from\s+main", panel)
    hang = text_of(dom(made, "#call=4"), "panel")
    assert "it did not return before the trace stopped" in hang
    assert text_of(dom(made, "#q=/^c|s.s_/"), "hits").strip() == "2"


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    records = nested(("main", 10, *((name, 10) for name in HOSTILE)))
    trace = read(write(tmp_path / "a.parquet", records))
    made = tmp_path / "a.html"
    made.write_text(page(replace(trace, about=replace(trace.about, command=(HOSTILE[0], HOSTILE[1], "@STYLE@")))))
    for address in ("", "#call=2"):
        document = dom(made, address)
        assert 'data-ready="yes"' in document
        assert "data-pwned" not in document
        shown = text_of(document, "panel")
        assert "onerror=" in shown or "<script>" in shown
    assert "@STYLE@" in made.read_text()


@pytest.mark.parametrize("times", [17, pytest.param(167, marks=pytest.mark.stress)])
def test_large_traces_of_up_to_half_a_million_calls_are_drawn(tmp_path: Path, times: int) -> None:
    one = nested(*(("f", 3, ("g", 3, ("h", 3))) for _ in range(1000)))
    long = one[-1][0] + 1
    records = [(time + n * long, *rest) for n in range(times) for time, *rest in one]
    made = tmp_path / "a.html"
    made.write_text(page(read(write(tmp_path / "a.parquet", records))))  # type: ignore[arg-type]
    assert made.stat().st_size < 100_000 + 15 * 3000 * times
    document = dom(made, "", 60_000)
    assert 'data-ready="yes"' in document
    assert f"{3000 * times} calls" in text_of(document, "panel")


def unpacked(document: str) -> bytes:
    return zlib.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', document)[1]))  # type: ignore[index]


def test_the_page_loads_nothing_from_elsewhere(small: Path) -> None:
    document = page(read(small))
    assert "default-src 'none'" in document
    assert not re.search(
        r"https?:|//cdn|src=|@import|url\(", document.replace(re.search(r'id="data">[^<]*<', document)[0], "")
    )  # type: ignore[index]


def test_a_trace_without_calls_makes_a_page(tmp_path: Path) -> None:
    records = [(0, 1, 1, "", "user", "gap", 0)]
    document = page(read(write(tmp_path / "a.parquet", records)))
    assert b'"calls": 0' in unpacked(document)


def test_numbers_are_encoded_like_protobuf() -> None:
    import numpy as np
    from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[import-untyped]

    from gilk.render.timeline import _numbers

    values = [0, 1, 127, 128, 300, 2**31, 2**53, 2**63 - 1, *range(0, 100_000, 997)]
    expected = b"".join(_VarintBytes(value) for value in values)
    assert _numbers(np.array(values, np.uint64)) == expected


def test_all_calls_of_a_random_trace_are_in_the_page(tmp_path: Path) -> None:
    machine = run(11, 500, threads=3, kernel=True)
    data = unpacked(page(read(write(tmp_path / "a.parquet", machine.records))))
    assert f'"calls": {len(machine.calls)}'.encode() in data

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The source of a function beside its blocks: the lines are those of addr2line, and no other files are shown."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.behaviour.harness import Loop, differences, wait_for
from tests.programs.build import HERE, build
from tests.seldom import seldom
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'
WORK = HERE / "work.c"
#: By function: the file that its debug information names.
STRANGE = {"passwd": "/etc/passwd", "link": "PLACE/link.c", "pipe": "PLACE/pipe.c", "large": "PLACE/large.c",
           "bytes": "PLACE/bytes.c", "up": "../../etc/passwd", "none": "PLACE/none.c", "canary": "PLACE/canary.c",
           "markup": f"PLACE/{CANARY}.c".replace('"', '\\"')}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a program whose functions name other files as theirs."""
    place = tmp_path_factory.mktemp("sources")
    (place / "link.c").symlink_to("/etc/passwd")
    (place / "large.c").write_text("x\n" * (5 << 20))
    (place / "bytes.c").write_bytes(b"\xff\xfe\x00" * 10)
    (place / "canary.c").write_text(f"{CANARY}\n</script>\u202e\x1b[2J\n" + "y" * 100_000 + "\n")
    subprocess.run(["mkfifo", place / "pipe.c"], check=True)
    functions = [
        f'# 2 "{file.replace("PLACE", str(place))}"\n__attribute__((noinline)) int {name}(int x) {{ return x * 7; }}\n'
        for name, file in STRANGE.items()
    ]
    calls = "".join(f"{name}(c);" for name in STRANGE)
    (place / "x.i").write_text("".join(functions) + f'# 1 "x.c"\nint main(int c, char **v) {{ {calls} return !v; }}\n')
    (place / "x.c").write_text("int main\n")
    subprocess.run(["cc", "-g", "-O0", "-o", place / "x", place / "x.i"], check=True)
    return place


@pytest.fixture(scope="module")
def window(loop: Loop, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("web")
    with served(place, "--pid", str(loop.pid), "--files", folder, "--files", HERE) as found:
        yield found


def by_addr2line(program: Path, blocks: list[dict[str, Any]]) -> dict[int, set[int]]:
    """By line, the blocks that have an instruction of it, according to addr2line."""
    found: dict[int, set[int]] = {}
    pairs = [(block["index"], one["address"]) for block in blocks for one in block["instructions"]]
    words = ["addr2line", "-e", str(program), *(hex(address) for _, address in pairs)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    for (block, _), line in zip(pairs, lines, strict=True):
        file, _, number = line.partition(" (")[0].rpartition(":")
        if number.isdecimal() and int(number) and Path(file).name == "work.c":
            found.setdefault(int(number), set()).add(block)
    return found


@pytest.mark.parametrize("function", ["dispatch", "ackermann", "main"])
def test_lines_of_blocks_are_those_of_addr2line(asking: Asking, loop: Loop, function: str) -> None:
    base = f"/target/{asking.target(loop.pid)}"
    blocks = asking.get(f"{base}/function.json?at={function}")
    found = asking.get(f"{base}/source.json?at={function}&file={WORK}")
    mine = {line["line"]: set(line["blocks"]) for line in found["lines"] if line["blocks"]}
    assert mine == by_addr2line(build("work"), blocks["blocks"])
    text = WORK.read_text().splitlines()
    assert all(line["text"] == text[line["line"] - 1] for line in found["lines"])


def test_hits_are_shown_beside_lines_by_mouse(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    target = asking.target(loop.pid)
    opened(page, window, f"/target/{target}/function?at=dispatch")
    source = page.get_by_role("table", name=f"Lines of {WORK}")
    expect(source).to_contain_text("switch (code)")
    page.get_by_role("button", name="Count every block").click()
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    page.go_back()
    expect(source.locator(".warm6").first).to_be_visible()
    suits(page, "lines with hits")
    narrow(page, "lines with hits")
    page.locator(".graph [data-block='4'] .block").hover()
    expect(source.locator("tr.marked")).to_have_count(1)
    number = asking.get("/index.json")["sessions"][0]["number"]
    counts = asking.post("/session/end", session=number)["report"]["counts"]
    told = asking.get(f"/target/{target}/source.json?at=dispatch")["lines"]
    expect(page.get_by_text("is over: you ended it")).to_be_visible()
    for line in (line for line in told if line["blocks"]):
        names = [f"work:dispatch:@{block}:pre" if block else "work:dispatch:entry" for block in line["blocks"]]
        most = max(counts.get(name, counts.get(f"work:dispatch:@{block}:pre", 0))
                   for name, block in zip(names, line["blocks"], strict=True))  # fmt: skip
        title = source.locator("tr", has=page.get_by_role("cell", name=str(line["line"]), exact=True)).first
        cell = title.locator("td").nth(1)
        expect(cell).to_have_attribute("title", f"{most:,}".replace(",", "\u202f"))
    assert wait_for(lambda: not differences(loop.pid))


def test_lines_are_read_by_keyboard(page: Page, window: Served, loop: Loop, asking: Asking) -> None:
    opened(page, window, f"/target/{asking.target(loop.pid)}/function?at=dispatch")
    reach(page, page.get_by_role("button", name="Block @3 of line"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="@3:pre", exact=False)).to_be_focused()
    expect(page.locator(".source tr.marked")).to_have_count(1)


@pytest.mark.stress
def test_a_line_finds_its_functions_and_leads_to_its_block(
    page: Page, window: Served, loop: Loop, asking: Asking
) -> None:
    target = asking.target(loop.pid)
    number = 1 + next(n for n, text in enumerate(WORK.read_text().splitlines()) if "return n + 1;" in text)
    query = f"work.c:{number}"
    opened(page, window, f"/target/{target}/symbols")
    page.get_by_label("Function", exact=True).fill(query)
    rows = page.get_by_role("table", name="Functions").locator("tbody tr")
    expect(rows).to_have_count(1)
    told = asking.get(f"/target/{target}/symbols.json?q={query}")
    assert [row["name"] for row in told["rows"]] == ["ackermann"] and told["line"] == query
    suits(page, "functions of a line")
    narrow(page, "functions of a line")
    page.get_by_role("button", name=f"Count {query}").click()
    page.get_by_role("button", name="Preview the plan").click()
    expect(page.get_by_text(re.compile(r"^\d+ points? can be had"))).to_be_visible()
    place = told["rows"][0]["places"][0]
    page.get_by_role("link", name=f"{place['where']} of ackermann").click()
    expect(page.get_by_role("table", name=f"Lines of {WORK}").locator("tr.marked")).to_contain_text(["return n + 1;"])
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Counts")).to_be_visible()
    session = asking.get("/index.json")["sessions"][0]
    counts = asking.post("/session/end", session=session["number"])["report"]["counts"]
    assert session["requests"] == [f"{query}=count"]
    assert [name.partition(" ")[2] for name in counts] == [f"({query})"] * len(told["rows"][0]["places"])


def test_a_line_without_code_is_refused_with_those_near_it(asking: Asking, loop: Loop) -> None:
    error = asking.get(f"/target/{asking.target(loop.pid)}/symbols.json?q=work.c:9999")["error"]
    assert error["slug"] == "no-such-line" and "lines near it" in error["hint"]


REFUSED = {"passwd": "not-granted", "link": "not-granted", "pipe": "not-text", "large": "not-text", "bytes": "not-text",
           "up": "not-granted", "none": "no-source", "markup": "no-source"}  # fmt: skip


@pytest.mark.parametrize("function", seldom(REFUSED, 4))
def test_files_that_are_no_sources_are_not_shown(
    page: Page, asking: Asking, window: Served, folder: Path, function: str
) -> None:
    target = next(one["id"] for one in asking.get("/index.json")["programs"] if one["path"] == str(folder / "x"))
    found = asking.get(f"/target/{target}/source.json?at={function}")
    assert found["error"]["slug"] == REFUSED[function], found
    opened(page, window, f"/target/{target}/function?at={function}")
    expect(page.get_by_label("Source", exact=True)).to_contain_text("No source: ")
    assert "root:" not in json.dumps(found) and page.locator("#main img").count() == 0
    other = asking.get(f"/target/{target}/source.json?at={function}&file=/etc/passwd")
    assert other["error"]["slug"] == ("not-granted" if function == "passwd" else "no-source")


def test_hostile_source_texts_are_shown_as_text(page: Page, asking: Asking, window: Served, folder: Path) -> None:
    target = next(one["id"] for one in asking.get("/index.json")["programs"] if one["path"] == str(folder / "x"))
    opened(page, window, f"/target/{target}/function?at=canary")
    expect(page.locator(".source code").first).to_have_text(CANARY)
    expect(page.locator(".source code").nth(1)).to_have_text("</script>\\u202e\\u001b[2J")
    assert page.locator("#main img").count() == 0
    narrow(page, "a strange text")

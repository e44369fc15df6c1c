# SPDX-License-Identifier: LGPL-2.1-or-later
"""The other pages of a trace: tree, flame graph, anomalies and queries agree with the output of the commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from gilk.render.plot import PlotKind
from gilk.render.plot_data import By, Values
from gilk.trace.about import Tally
from gilk.trace.traced import TraceDescription, Unfollowed
from gilk.web.grants import identity_of_file
from gilk.web.traces import PLOTS
from tests.behaviour.harness import run_gilk
from tests.seldom import seldom
from tests.trace.machine import nested, run, write
from tests.web.served import Asking, Served, served
from tests.web.windows import asking, browser, context, narrow, opened, page, reach, suits

__all__ = ["asking", "browser", "context", "page"]  # fixtures

CANARY = '<img src=x onerror="window.canary=1">'
LEAF = ("d", 10)
CALLS = ("a", 1000, ("b", 400, LEAF, LEAF), ("c", 2000), ("b", 500, ("k:sys", 300)))
SLOW = ("a", 1000, ("b", 400, LEAF, LEAF), ("c", 90_000), ("b", 500, ("k:sys", 300)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("views")
    write(place / "small.parquet", nested(*[CALLS] * 12, SLOW) + nested(("c", 100), tid=2, start=10_000_000))
    write(place / "walk.parquet", run(4, 2000, threads=3).records)
    write(place / "strange.parquet", nested((CANARY, 100, ("</style>\u202e\x01", 50), ("y" * 5000, 20))))
    lacking = [Unfollowed(CANARY, "prog", "no-room", ("a", "b"))]
    lacking += [Unfollowed(f"tiny{n}", "prog", "no-room", ("b",)) for n in range(8)]
    lacking.append(Unfollowed("far", "libc.so.6", "rseq", ("b",)))
    records = nested(CALLS)
    described = TraceDescription(records[0][0], records[-1][0], "now", "exit", unfollowed=tuple(lacking))
    write(place / "partly.parquet", records, Tally(partial=False, trace=described))
    (place / "broken.parquet").write_bytes(b"PAR1" + b"\xff" * 5000 + b"PAR1")
    return place


@pytest.fixture(scope="module")
def window(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--files", folder) as found:
        yield found


def at(folder: Path, name: str, view: str) -> str:
    return f"/file/{identity_of_file(folder / name)}/{view}"


def line(page: Page, name: str) -> Any:
    return page.get_by_role("region", name="Calls of t1 (process 1)").get_by_role("button", name=name)


def test_a_tree_is_used_by_mouse(page: Page, window: Served, folder: Path) -> None:
    opened(page, window, at(folder, "small.parquet", "timeline"))
    page.get_by_role("link", name="Tree", exact=True).click()
    rows = page.get_by_role("region", name="Calls of t1 (process 1)").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("13")
    line(page, "a").click()
    expect(rows).to_have_count(3)
    assert [each.split("\t")[2] for each in rows.all_inner_texts()] == ["13", "13", "26"], "c took longer than b"
    line(page, "b").click()
    expect(rows).to_have_count(5)
    expect(rows.nth(3)).to_contain_text("sys (kernel)")
    suits(page, "a tree")
    narrow(page, "a tree")
    page.reload()
    expect(rows).to_have_count(5)
    line(page, "a").click()
    expect(rows).to_have_count(1)
    expect(page).to_have_url(f"http://127.0.0.1:{window.port}{at(folder, 'small.parquet', 'tree')}")
    rows.first.get_by_role("link").click()
    expect(page.get_by_label("Find a function")).to_have_value("a")


def test_a_tree_is_used_by_keyboard(page: Page, window: Served, folder: Path) -> None:
    opened(page, window, at(folder, "small.parquet", "tree"))
    reach(page, line(page, "a"))
    page.keyboard.press("ArrowRight")
    expect(line(page, "c")).to_be_visible()
    for key, name in [("ArrowDown", "c"), ("ArrowDown", "b"), ("ArrowRight", "b")]:
        page.keyboard.press(key)
        expect(line(page, name)).to_be_focused()
    expect(line(page, "d")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(line(page, "b")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(line(page, "d")).to_have_count(0)
    page.keyboard.press("Home")
    expect(line(page, "a")).to_be_focused()


Node = tuple[str, int, int, int, tuple[Any, ...]]


def of_page(asking: Asking, base: str, rows: list[Any]) -> tuple[Node, ...]:
    """The whole tree, opened line by line."""
    return tuple(
        sorted(
            (row["function"], row["calls"], row["total"], row["self"],
             of_page(asking, base, asking.get(f"{base}?node={row['node']}")["calls"]) if row["children"] else ())
            for row in rows
        )
    )  # fmt: skip


def of_command(rows: list[Any]) -> tuple[Node, ...]:
    return tuple(
        sorted((row["function"], row["calls"], row["total"], row["self"], of_command(row["children"])) for row in rows)
    )


def test_the_tree_agrees_with_that_of_the_command(asking: Asking, folder: Path) -> None:
    for name in ("small.parquet", "walk.parquet"):
        base = f"{at(folder, name, 'tree')}.json"
        shown = json.loads(run_gilk("show", "--json", "--tree", str(folder / name)).stdout)["tree"]
        found = asking.get(base)
        if name == "small.parquet":
            mine = [of_page(asking, base, thread["calls"]) for thread in found["threads"]]
            assert mine == [of_command(thread["calls"]) for thread in shown]
        else:
            mine, theirs = (
                [{(row["function"], row["calls"], row["total"]) for row in each["calls"]} for each in threads]
                for threads in (found["threads"], shown)
            )
            assert mine == theirs


def lacking_of(asking: Asking, base: str, rows: list[Any]) -> dict[str, list[str]]:
    """The functions that are not followed, by the function below whose line they are named."""
    found = {row["function"]: row["not_followed"] for row in rows if "not_followed" in row}
    for row in rows:
        if row["children"]:
            found |= lacking_of(asking, base, asking.get(f"{base}?node={row['node']}")["calls"])
    return found


@pytest.mark.stress
def test_functions_that_are_not_followed_are_named_below_their_callers(
    page: Page, window: Served, asking: Asking, folder: Path
) -> None:
    """As the command names them; a function of another image with the same caller's name belongs to none."""
    base = f"{at(folder, 'partly.parquet', 'tree')}.json"
    tinies = [f"tiny{n}" for n in range(8)]
    found = asking.get(base)
    assert lacking_of(asking, base, found["threads"][0]["calls"]) == {"a": [CANARY], "b": [CANARY, *tinies]}
    printed = run_gilk("show", "--tree", str(folder / "partly.parquet")).stdout
    assert found["lacking"] and found["lacking"] in printed
    opened(page, window, at(folder, "partly.parquet", "tree"))
    line(page, "a").click()
    expect(page.get_by_text(f"not followed: {CANARY}", exact=True)).to_be_visible()
    shown = page.get_by_text("not followed").nth(2)
    expect(shown).to_have_text(f"not followed: {CANARY}, tiny0, tiny1, tiny2, tiny3, tiny4 and 3 more")
    assert f"[{shown.inner_text()}]" in printed
    suits(page, "a tree with functions that are not followed")
    narrow(page, "a tree with functions that are not followed")


def test_the_flame_graph_agrees_with_that_of_the_command(asking: Asking, folder: Path, tmp_path: Path) -> None:
    for name in ("small.parquet", "walk.parquet"):
        words = ("show", "--json", "--flame", str(tmp_path / "x.svg"), str(folder / name))
        drawn = json.loads(run_gilk(*words).stdout)["flame"]
        found = asking.get(f"{at(folder, name, 'flame')}.json")
        assert (found["contexts"], found["total"]) == (drawn["paths"], drawn["total"])
        for bar in found["bars"]:
            assert abs(bar["width"] - bar["total"] / found["total"]) < 1e-9
        inner = [bar for bar in found["bars"] if bar["depth"] == 1]
        assert sum(bar["total"] for bar in inner) <= sum(bar["total"] for bar in found["bars"] if bar["depth"] == 0)
        alone = asking.get(f"{at(folder, name, 'flame')}.json?node={inner[0]['node']}")
        assert alone["bars"][0]["width"] == 1 and len(alone["path"]) == 2


def test_a_flame_graph_is_used_by_mouse_and_keyboard(page: Page, window: Served, folder: Path) -> None:
    opened(page, window, at(folder, "small.parquet", "flame"))
    bars = page.locator("#flame .frame")
    expect(bars).to_have_count(6)
    suits(page, "a flame graph")
    narrow(page, "a flame graph")
    page.locator("#flame .frame text", has_text="b").locator("..").hover()
    expect(page.locator("#bar")).to_contain_text("b of prog:")
    reach(page, page.locator("#flame"))
    for key, name in [("Home", "a"), ("ArrowUp", "c"), ("ArrowRight", "b"), ("ArrowUp", "sys (kernel)"),
                      ("ArrowDown", "b")]:  # fmt: skip
        page.keyboard.press(key)
        expect(page.locator("#bar")).to_contain_text(f"{name} of ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Callers")).to_contain_text("all › a › b")
    expect(bars).to_have_count(3)
    page.get_by_role("link", name="all", exact=True).click()
    expect(bars).to_have_count(6)
    expect(page.get_by_role("table", name="Most time in itself").locator("tbody tr")).to_have_count(6)


@pytest.mark.stress
def test_anomalies_agree_with_those_of_the_command(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    opened(page, window, at(folder, "small.parquet", "anomalies"))
    rows = page.get_by_role("table", name="Calls unlike others").locator("tbody tr")
    expect(rows.first).to_contain_text("slow")
    printed = page.get_by_role("region", name="Text").inner_text().replace("\xa0", " ")
    assert printed.split() == run_gilk("anomalies", str(folder / "small.parquet")).stdout.split()
    suits(page, "anomalies")
    narrow(page, "anomalies")
    rows.first.get_by_role("link", name="c", exact=True).click()
    expect(page.get_by_label("The call").locator("h2")).to_have_text("c")
    expect(page.get_by_label("The call")).to_contain_text("took90.0 µs")
    page.go_back()
    page.get_by_label("A slow call takes longer").fill("1 fortnight")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("alert")).to_contain_text("A time is a number")
    page.get_by_label("A slow call takes longer").fill("1 s")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_contain_text("none of which stands out")
    found = asking.get(f"{at(folder, 'small.parquet', 'anomalies')}.json")
    whole = json.loads(run_gilk("anomalies", "--json", str(folder / "small.parquet")).stdout)
    assert found["anomalies"] == whole["anomalies"]


def test_sql_queries_are_answered(page: Page, window: Served, folder: Path, asking: Asking) -> None:
    opened(page, window, at(folder, "small.parquet", "sql"))
    expect(page.locator("#main")).to_contain_text("calls: function")
    question = page.get_by_label("A question in SQL")
    question.fill("select function, count(*) as n from calls group by all order by n desc, function")
    page.keyboard.press("Control+Enter")
    answer = page.get_by_role("table", name="Answer").locator("tbody tr")
    expect(answer).to_have_count(5)
    expect(page.locator("#main")).to_contain_text("calls (92 rows): function")
    words = ("query", "--json", str(folder / "small.parquet"), question.input_value())
    whole = json.loads(run_gilk(*words).stdout)
    found = asking.get(f"{page.url.partition(str(window.port))[2].replace('/sql?', '/sql.json?')}")
    assert {"columns": found["columns"], "rows": found["rows"]} == whole
    shown = [each.split("\t") for each in answer.all_inner_texts()]
    assert shown == [[str(cell) for cell in row] for row in whole["rows"]]
    suits(page, "an answer")
    narrow(page, "an answer")
    page.get_by_role("button", name="Slowest calls").click()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_label("Answer", exact=True)).to_contain_text("20 rows")
    page.get_by_label("A question in SQL").fill("select from where")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("bad-query")
    expect(page.get_by_label("A question in SQL")).to_have_value("select from where")


@pytest.mark.parametrize("sql", [
    "select * from read_csv('/etc/passwd')", "copy calls to '/tmp/out.csv'", "attach '/tmp/x.db'", "install httpfs",
    "set enable_external_access = true", "select * from '/etc/passwd'", "",
])  # fmt: skip
def test_sql_queries_reach_nothing_but_the_trace(asking: Asking, folder: Path, sql: str) -> None:
    base = f"{at(folder, 'small.parquet', 'sql')}.json"
    found = asking.get(f"{base}?q={sql.replace(' ', '%20')}")
    assert found.get("error", {}).get("slug") == "bad-query" or (not sql and found["rows"] == [])
    assert not Path("/tmp/out.csv").exists()


def test_answers_to_sql_queries_are_limited(asking: Asking, folder: Path) -> None:
    base = f"{at(folder, 'small.parquet', 'sql')}.json"
    found = asking.get(f"{base}?q=select%20*%20from%20range(5000)")
    assert len(found["rows"]) == 1000 and found["more"]
    (cell,) = asking.get(f"{base}?q=select%20repeat('x',1000000)")["rows"][0]
    assert len(cell) == 2001
    assert asking.get(f"{base}?q={'x' * 4001}")["error"]["slug"] == "bad-request"


@pytest.mark.parametrize("kinds", seldom([(("scatter",),), (("step", "histogram", "spectrum"),)], 1), ids="-".join)
def test_plots_are_those_of_the_command_line(
    page: Page, window: Served, asking: Asking, folder: Path, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    file = folder / "small.parquet"
    opened(page, window, at(folder, "small.parquet", "plot"))
    for kind in kinds:
        page.get_by_label("Plot", exact=True).select_option(kind)
        expect(page).to_have_url(re.compile(f"kind={kind}"))
        lines = page.locator(f"path.series.{kind}:has(title)")
        expect(lines.first).to_be_attached()
        found = asking.get(f"{at(folder, 'small.parquet', 'plot')}.json?kind={kind}")
        drawn = run_gilk("plot", file, "--kind", kind, "--json", "-o", tmp_path / "plot.svg")
        same = json.loads(drawn.stdout)
        series = [{name: one[name] for name in ("name", "events", "drawn")} for one in found["series"]]
        assert (found["title"], series, found["notes"]) == (same["title"], same["series"], same["notes"])
        assert lines.count() == len(series) and found["command"] == f"gilk plot {file} --kind {kind}"
        if kind == "scatter":
            marks = [each.get_attribute("d") or "" for each in lines.all()]
            assert [each.count("M") for each in marks] == [one["drawn"] for one in series]
        suits(page, f"plot, {kind}")
    narrow(page, "a plot")
    page.get_by_label("Only points or functions").fill("nothing*")
    page.get_by_role("button", name="Draw").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing-to-plot")
    expect(page.get_by_label("Only points or functions")).to_have_value("nothing*")


def test_the_choices_of_a_plot_are_all_there_are(asking: Asking, folder: Path) -> None:
    known = [{str(each) for each in kind} for kind in (PlotKind, By, Values)]
    assert [set(PLOTS[name]) - {""} for name in ("kind", "by", "values")] == known
    for query in ("kind=x", "by=x", "values=", "scale=2"):
        found = asking.get(f"{at(folder, 'small.parquet', 'plot')}.json?{query}")
        assert "error" not in found if query == "values=" else found["error"]["slug"] == "bad-request", query


def test_hostile_names_are_shown_as_text(page: Page, window: Served, folder: Path) -> None:
    for view in (
        "tree",
        "flame",
        "anomalies",
        "plot?kind=step&by=function",
        "sql?q=select%20distinct%20function%20from%20calls",
    ):
        opened(page, window, at(folder, "strange.parquet", view))
        if view != "anomalies":
            expect(page.locator("#main")).to_contain_text(CANARY)
        if view == "tree":
            page.get_by_role("button", name=CANARY).click()
            expect(page.locator("#main")).to_contain_text("</style>\\u202e\\u0001")
        assert page.locator("#main img").count() == 0
        narrow(page, f"strange names, {view}")


@pytest.mark.parametrize("view", ["tree", "flame", "anomalies", "plot", "sql"])
def test_files_that_are_no_traces_are_refused(asking: Asking, folder: Path, view: str) -> None:
    for path, slug in [(folder / "broken.parquet", "bad-trace"), (folder / "none.parquet", "no-such-file"),
                       (Path("/etc/passwd"), "not-granted"), (folder / "x.txt", "not-samples")]:  # fmt: skip
        assert asking.get(f"/file/{identity_of_file(path)}/{view}.json")["error"]["slug"] == slug, path


@pytest.mark.parametrize("query", [
    "tree.json?node=99999", "tree.json?node=-2", "flame.json?node=x", "flame.json?node=99999",
    "anomalies.json?least=-1",
    "anomalies.json?least=1e3",
])  # fmt: skip
def test_malformed_numbers_are_refused(asking: Asking, folder: Path, query: str) -> None:
    found = asking.get(at(folder, "small.parquet", query))
    assert found["error"]["slug"] in ("bad-request", "no-such-node")


@pytest.mark.parametrize("query", ["select * from calls", "select 18446744073709551615 as a, null as b, [1, 2] as c"])
def test_answers_are_also_tables_for_other_programs(asking: Asking, folder: Path, query: str) -> None:
    """duckdb and pyarrow read the same rows that the page shows."""
    path = at(folder, "small.parquet", "sql")
    words = urlencode({"q": query})
    shown = asking.get(f"{path}.json?{words}")
    table = pa.ipc.open_stream(asking.content(f"{path}.arrow?{words}")).read_all()
    rows = [list(row.values()) for row in table.to_pylist()]
    assert (table.column_names, rows) == (shown["columns"], shown["rows"]) and rows
    (folder / "shown.csv").write_bytes(asking.content(f"{path}.csv?{words}"))
    read = duckdb.sql(f"select * from read_csv('{folder / 'shown.csv'}', all_varchar = true)")
    texts = [["" if cell is None else str(cell) for cell in row] for row in shown["rows"]]
    assert [["" if cell is None else cell for cell in row] for row in read.fetchall()] == texts
    assert read.columns == shown["columns"]


def test_a_table_that_cannot_be_had_is_an_error(asking: Asking, folder: Path) -> None:
    answer = asking.get(f"{at(folder, 'broken.parquet', 'flame')}.csv")
    assert answer["error"]["slug"] == "bad-trace"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions are found by a part of their names, a glob, an expression, an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.api import scans
from gilk.api.scans import FunctionSymbol, TargetImage
from gilk.errors import UsageError
from gilk.web.search import PAGE, SymbolFigures, SymbolRow, found, line_of
from gilk.web.worker import LookAnswers
from tests.programs.build import build

IMAGE = TargetImage("prog", "", "prog", Path("prog"))
NAMES = ["pipe_write", "pipe_read", "do_pipe2", "unpipe", "PIPE_BIG", "parse", "a::Engine::update(int)"]
FIGURES = [SymbolFigures(4, 8, refused, (("no-room", refused),) if refused else ()) for refused in (0, 3, 8)]
ROWS = [
    SymbolRow.of(IMAGE, FunctionSymbol(name, 0x1000 + 0x100 * n, 16 * (n + 1)), name, [None, *FIGURES][n % 4])
    for n, name in enumerate(NAMES)
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("pipe_write", "pipe_write"),
        ("pipe", "pipe_read pipe_write PIPE_BIG unpipe do_pipe2"),
        ("PIPE_*", "PIPE_BIG pipe_read pipe_write"),
        ("*pipe", "unpipe"),
        ("/^p.*e$/", "parse pipe_write"),
        ("/read|2/", "do_pipe2 pipe_read"),
        ("0x1105", "pipe_read"),
        ("0x1010", ""),
        ("ppwrt", "pipe_write"),
        ("engine::up", "a::Engine::update(int)"),
        ("nothing", ""),
    ],
)
def test_a_query_finds_functions(query: str, names: str) -> None:
    assert {row.shown for row in found(ROWS, query, "match")[1]} == set(names.split(" ")) - {""}


def test_the_best_match_comes_first() -> None:
    assert [row.shown for row in found(ROWS, "pipe", "match")[1]][:2] == ["PIPE_BIG", "pipe_read"]
    assert [row.shown for row in found(ROWS, "parse", "match")[1]] == ["parse"]
    assert [row.symbol.size for row in found(ROWS, "", "size")[1]] == sorted(
        (16 * n for n in range(1, 8)), reverse=True
    )
    assert found(ROWS, "", "refused")[1][0].figures == FIGURES[2]


def test_pages_of_results_are_parts_of_one_order() -> None:
    many = [SymbolRow.of(IMAGE, FunctionSymbol(f"f{n:04}", n, n), f"f{n:04}") for n in range(1000)]
    pages = [found(many, "f", "size", "", first) for first in range(0, 1000, PAGE)]
    assert {count for count, _ in pages} == {1000}
    assert [row.symbol.size for _, rows in pages for row in rows] == list(range(999, -1, -1))


def test_markers_show_which_functions_have_refused_points() -> None:
    assert [row.marker for row in ROWS[:4]] == ["not-analysed", "all", "some", "none"]
    assert {row.marker for row in found(ROWS, "", "match", "some")[1]} == {"some"}


@pytest.mark.parametrize("query", ["/(/", "0xyz", "x" * 201, "/(?P<a>)(?P<a>)/"])
def test_a_bad_query_is_refused_by_name(query: str) -> None:
    with pytest.raises(UsageError) as error:
        found(ROWS, query, "match")
    assert error.value.slug == "bad-search"


@pytest.mark.parametrize(
    ("query", "line"),
    [("work.c:12", "work.c:12"), (" libz*:src/inflate.c:7 ", "libz*:src/inflate.c:7"), ("work.c", None),
     ("work.c:", None),
     ("a::Engine:12", None), ("dispatch:entry", None), ("/work.c:12/", None), ("0x1105", None), ("", None)],
)  # fmt: skip
def test_a_query_means_a_line_as_a_point_does(query: str, line: str | None) -> None:
    found = line_of(query)
    assert (str(found) if found is not None else None) == line


def test_a_graph_is_kept_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page asks for it twice: for the graph, and for its source."""
    program = tmp_path / "work"
    program.write_bytes(build("work").read_bytes())
    made: list[str] = []
    real = scans.cfg
    monkeypatch.setattr(scans, "cfg", lambda *words, **more: made.append(words[1]) or real(*words, **more))
    looks = LookAnswers()
    first = looks.function(str(program), "", "dispatch")
    assert looks.function(str(program), "", "dispatch") == first and made == ["dispatch"]
    program.write_bytes(program.read_bytes() + b"\0")
    assert looks.function(str(program), "", "dispatch") == first and made == ["dispatch"] * 2

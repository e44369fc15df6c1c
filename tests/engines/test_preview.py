# SPDX-License-Identifier: LGPL-2.1-or-later
"""A preview predicts what a session makes of points; images and symbols are those of the loader and the linker."""

from __future__ import annotations

import subprocess

import pytest

from gilk.api.processes import attach
from gilk.api.runs import prepare_run
from gilk.api.scans import images, line_points, preview, symbols
from gilk.errors import UsageError
from gilk.runs import strategy
from gilk.session.request import Builtin, Request
from gilk.spec.point import parse
from tests.behaviour.harness import Loop, differences
from tests.programs.build import HERE, build
from tests.seldom import seldom

SOURCE = (HERE / "work.c").read_text().splitlines()


@pytest.mark.parametrize("texts", [["dispatch:blocks", "dispatch:blocks-post"], ["*:entry", "*:return"]])
def test_a_session_has_the_outcomes_that_the_preview_predicts(texts: list[str]) -> None:
    with Loop([build("work")]) as loop:
        planned = preview(f"pid:{loop.pid}", [Request(parse(text), Builtin.COUNT) for text in texts])
        assert not differences(loop.pid)
        with attach(loop.pid) as target, target.session() as session:
            made = [probe for text in texts for probe in session.insert(text, "count")]
            session.activate(made)
            outcomes = {probe.row.point: str(probe.tactic or probe.refusal) for probe in session.probes}
    assert {row.point: row.outcome.name for row in planned} == outcomes


@pytest.mark.parametrize("name", seldom(["path", "edges", "time", "calls"], 2))
def test_a_run_has_the_outcomes_that_the_preview_of_a_strategy_predicts(name: str) -> None:
    chosen = strategy.parse(f"ackermann=@{name}")
    with Loop([build("work")]) as loop:
        planned = preview(f"pid:{loop.pid}", [chosen])
        assert planned and not differences(loop.pid)
        running = prepare_run([chosen], [loop.pid], [])
        running.begin()
        outcomes = {probe.row.point: str(probe.tactic or probe.refusal) for probe in running.sessions[0].probes}
        running.finish()
    assert {row.point: row.outcome.name for row in planned} == outcomes


def test_symbols_are_those_of_nm() -> None:
    program = build("work")
    (image,) = images(str(program))
    listed = subprocess.run(["nm", "-S", "--defined-only", program], capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    known = {(row[3], int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}
    found = {(each.name, each.address, each.size) for each in symbols(str(program), image)}
    assert known and known <= found


def test_images_of_a_process_are_those_that_it_has_mapped() -> None:
    with Loop([build("work")]) as loop:
        found = images(f"pid:{loop.pid}")
        mapped = subprocess.run(["grep", "r-xp.*/", f"/proc/{loop.pid}/maps"], capture_output=True, text=True).stdout
        assert sorted(each.path for each in found) == sorted({line.split()[5] for line in mapped.splitlines()})
        assert (found[0].name, found[0].pattern) == ("work", "")
        assert all(symbols(f"pid:{loop.pid}", each) for each in found)


def test_a_preview_of_a_line_has_the_points_of_a_session() -> None:
    program = build("work")
    number = 1 + next(n for n, text in enumerate(SOURCE) if "return n + 1;" in text)
    with Loop([program]) as loop:
        planned = preview(f"pid:{loop.pid}", [Request(parse(f"work.c:{number}"), Builtin.COUNT)])
        with attach(loop.pid) as target, target.session() as session:
            session.activate(session.insert(f"work.c:{number}", "count"))
            outcomes = {probe.row.point: str(probe.tactic or probe.refusal) for probe in session.probes}
    assert outcomes and {row.point: row.outcome.name for row in planned} == outcomes


def test_points_of_a_line_are_where_addr2line_says_that_it_is() -> None:
    program = str(build("work"))
    found = images(program)
    number = 1 + next(n for n, text in enumerate(SOURCE) if "return n + 1;" in text)
    addresses = [hex(each.function + each.offset) for each in line_points(program, found, parse(f"work.c:{number}"))]
    words = ["addr2line", "-e", program, *addresses]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines and {line.partition(" (")[0].rpartition("/")[2] for line in lines} == {f"work.c:{number}"}


@pytest.mark.parametrize(
    ("target", "line", "slug"),
    [("work", "work.c:9999", "no-such-line"), ("work", "libc:work.c:1", "no-such-image"),
     ("kernel", "fs/pipe.c:10", "no-line-table")],
)  # fmt: skip
def test_lines_that_are_not_there_are_refused(target: str, line: str, slug: str) -> None:
    target = target if target == "kernel" else str(build(target))
    with pytest.raises(UsageError) as error:
        preview(target, [Request(parse(line), Builtin.COUNT)])
    assert error.value.slug == slug
    found = images(target) if target != "kernel" else ()
    with pytest.raises(UsageError) as error:
        list(line_points(target, found, parse(line)))
    assert error.value.slug == slug

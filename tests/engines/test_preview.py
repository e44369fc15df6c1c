# SPDX-License-Identifier: LGPL-2.1-or-later
"""A preview predicts what a session makes of points; images and symbols are those of the loader and the linker."""

from __future__ import annotations

import subprocess

import pytest

from gilk.api.processes import attach
from gilk.api.scans import images, preview, symbols
from gilk.errors import UsageError
from gilk.spec.point import parse
from tests.behaviour.harness import Loop, differences
from tests.programs.build import build


@pytest.mark.parametrize("texts", [["dispatch:blocks", "dispatch:blocks-post"], ["*:entry", "*:return"]])
def test_a_session_has_the_outcomes_that_the_preview_predicts(texts: list[str]) -> None:
    with Loop([build("work")]) as loop:
        planned = preview(f"pid:{loop.pid}", [(parse(text), False) for text in texts])
        assert not differences(loop.pid)
        with attach(loop.pid) as target, target.session() as session:
            made = [probe for text in texts for probe in session.insert(text, "count")]
            session.activate(made)
            outcomes = {probe.row.point: str(probe.tactic or probe.refusal) for probe in session.probes}
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


def test_a_preview_of_source_lines_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        preview(str(build("work")), [(parse("work.c:20"), False)])
    assert error.value.slug == "no-preview-of-lines"

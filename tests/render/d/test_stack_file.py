# SPDX-License-Identifier: LGPL-2.1-or-later
"""Flame graphs of the stacks of D programs: the text of the program tells which calls there are, and how many."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gilk.errors import UsageError
from gilk.render.d.stack_file import stacks_of
from gilk.trace.stacks import by_path
from tests.behaviour.harness import run_gilk

SOURCE = r"""
static volatile int sink;
__attribute__((noinline)) void leaf(int n) { sink = n; }
__attribute__((noinline)) void left(int n) { leaf(n); sink++; }
__attribute__((noinline)) void right(int n) { left(n); leaf(10 * n); sink++; }
int main(void) { for (int n = 1; n <= 3; n++) { left(n); right(n); } return 0; }
"""
PROGRAM = """
pid$target:a.out:leaf:entry { @calls[ustack(4)] = count(); @[ustack(4), probefunc] = sum(arg0); @plain = count(); }
pid$target:a.out:leaf:entry { @spread[ustack(4)] = quantize(arg0); }
pid$target:a.out:leaf:entry /arg0 == 30/ { ustack(4); ustack(4); }
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stacks")
    (place / "calls.c").write_text(SOURCE)
    words = ["cc", "-O1", "-fno-optimize-sibling-calls", "-o", "calls", "calls.c"]
    subprocess.run(words, cwd=place, check=True)
    done = run_gilk("dtrace", "-q", "-o", place / "e.parquet", "-n", PROGRAM, "-c", place / "calls")
    assert done.returncode == 0, done.stderr
    return place / "e.parquet"


def counts(events: Path, name: str) -> dict[str, int]:
    """The counts of paths from main on."""
    found: dict[str, int] = {}
    for path, count in by_path(stacks_of(events, name)).items():
        names = [frame.partition("`")[2] for frame in path]
        found[" ".join(names[names.index("main") :])] = count
    return found


def test_stacks_have_the_totals_of_aggregations(events: Path) -> None:
    calls = {"main left leaf": 3, "main right left leaf": 3, "main right leaf": 3}
    assert counts(events, "@calls") == counts(events, "@spread") == calls
    assert counts(events, "@_") == {"main left leaf": 6, "main right left leaf": 6, "main right leaf": 60}
    assert counts(events, "ustack") == {"main right leaf": 2}


def test_one_of_several_kinds_is_chosen_by_its_name(events: Path, tmp_path: Path) -> None:
    for name, message in (("", "several kinds of stacks"), ("@plain", "no stacks of @plain"), ("@x", "of @x")):
        with pytest.raises(UsageError, match=message) as refused:
            stacks_of(events, name)
        assert refused.value.hint.endswith("@_, @calls, @spread, ustack")
    picture = tmp_path / "out.svg"
    done = run_gilk("show", events, "--flame", picture, "--of", "@calls", "--json")
    assert json.loads(done.stdout) == {"flame": {"file": str(picture), "total": 9}}
    assert all(name in picture.read_text() for name in ("leaf", "left", "right", "9 stacks"))


def test_stacks_are_of_files_of_events_that_have_some(events: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    run_gilk("dtrace", "-q", "-o", other, "-n", "BEGIN { trace(1); exit(0); }")
    done = run_gilk("show", other, "--flame", tmp_path / "out.svg")
    assert done.returncode == 2 and "has no stacks" in done.stderr
    done = run_gilk("show", events)
    assert "(bad-trace)" in done.stderr and "--flame" in done.stderr
    done = run_gilk("show", other, "--tree", "--of", "@a")
    assert done.returncode == 2 and "--of is about" in done.stderr

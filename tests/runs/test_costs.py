# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of a run's probes is what their hits take on this machine, as measured on a program of gilk's own."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import TargetError
from gilk.runs import costs
from tests.behaviour.harness import run_gilk
from tests.programs.build import compile_text

CALLS = """
__attribute__((noipa)) int f(int x) { return x + 1; }
__attribute__((noipa)) int g(int x) { return f(x); }
int main(void) { int n = 0; for (int i = 0; i < 1000; i++) n += i % 100 ? f(i) : g(i); return n == 0; }
"""


def _cost(program: Path, *words: str) -> dict[str, Any]:
    done = run_gilk("run", "--cost", "--json", *words, "--", str(program))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["restored"] is True
    found: dict[str, Any] = report["cost"]
    return found


def test_the_cost_is_that_of_a_hit_times_the_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    program = compile_text(tmp_path, "calls", CALLS, "-O1")
    instruments = ("-i", "f:entry=count", "-i", "f:entry=regs", "-i", "g:entry=time")
    first, again = _cost(program, *instruments), _cost(program, *instruments)
    hits = {(one["point"], one["instrument"]): one["hits"] for one in first["points"]}
    assert hits == {("calls:f:entry", "count"): 1000, ("calls:f:entry", "regs"): 1000, ("calls:g:entry", "time"): 10}
    assert all(one["ns"] == round(one["hits"] * one["each_ns"]) for one in first["points"])
    assert first["ns"] == pytest.approx(sum(one["ns"] for one in first["points"]), abs=3)
    each = first["each_ns"]
    assert 0 < each["count"] < each["time"] < 1e5 and each["count"] < each["regs"], "an addition is less than a record"
    assert again["each_ns"] == each, "the second run has what the first one has measured"
    assert first["unknown"] == 0


def test_the_cost_of_a_tree_has_the_programs_that_are_over(tmp_path: Path) -> None:
    program = compile_text(tmp_path, "calls", CALLS, "-O1")
    words = ("run", "--cost", "--json", "--follow", "-i", "calls:f:entry=count", "-i", "calls:g:entry=time")
    done = run_gilk(*words, "--", "sh", "-c", f"{program}; {program}; true")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    hits = {one["point"]: one["hits"] for one in report["cost"]["points"]}
    assert hits == {"calls:f:entry": 2000, "calls:g:entry": 20} and report["counts"] == {"calls:f:entry": 2000}


def test_a_program_that_ends_while_it_is_measured_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(costs, "cost_program", lambda: contextlib.nullcontext(Path("/bin/true")))
    with pytest.raises(TargetError) as found:
        costs.measured_costs()
    assert found.value.slug == "no-costs" and costs.known_costs() is None

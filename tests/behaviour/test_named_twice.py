# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that the command line names twice, as `-p $(pgrep ...)` may, is attached to once, and each hit counts
once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.behaviour.harness import Loop, run_gilk
from tests.programs.build import build


def _report(*words: str, pid: int) -> dict[str, Any]:
    done = run_gilk(*words, "-p", str(pid), "-p", str(pid))
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_run_attaches_once_to_a_process_that_is_named_twice() -> None:
    with Loop([build("work", "O0")]) as loop:
        report = _report("run", "--json", "--for", "100ms", "-i", "one_round:entry=count", pid=loop.pid)
    assert report["points"]["asked"] == 1
    assert report["restored"] is True


def test_trace_attaches_once_to_a_process_that_is_named_twice(tmp_path: Path) -> None:
    with Loop([build("work", "O0")]) as loop:
        words = ("trace", "--json", "-o", f"{tmp_path}/t.parquet", "--scope", "work:one_round", "--stop")
        report = _report(*words, "call:one_round:3", pid=loop.pid)
    assert report["trace"]["functions"] == 1
    assert report["restored"] is True

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace that begins at a function which is called all the time has room for its own records."""

from __future__ import annotations

import json
from pathlib import Path

from tests.behaviour.harness import Loop, run_gilk
from tests.programs.build import build

CALLS = 50


def test_records_from_before_the_start_take_no_room(tmp_path: Path) -> None:
    """The starting function has probes before the trace begins, and fills the buffer within milliseconds."""
    words = ["--start", "call:work:ascending", "--stop", f"return:work:ascending:{CALLS}", "--scope", "work:ascending"]
    with Loop([build("work")]) as loop:
        for number in range(3):
            output = tmp_path / f"{number}.parquet"
            done = run_gilk("trace", "-p", str(loop.pid), *words, "--all", "--json", "-o", str(output))
            report = json.loads(done.stdout.splitlines()[-1])
            assert (report["trace"]["states"].get("whole"), report["drops"]) == (CALLS, 0), (number, report)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Eight threads on few processors, many keys: no update of any aggregation is lost, and no drop is kept quiet."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.build import build

THREADS = 8
CLAUSE = """pid$target:a.out:leaf:entry {
    @calls = count(); @sum = sum(arg0); @least = min(arg0); @most = max(arg0); @spread = quantize(arg0);
    @per[arg0] = count(); }"""
PRINT = """END { printa("calls %@d\\n", @calls); printa("sum %@d\\n", @sum); printa("least %@d\\n", @least);
    printa("most %@d\\n", @most); printa("%d %@d\\n", @per); trunc(@spread); }"""


def told(directory: Path, keys: int, times: int, *options: str) -> tuple[dict[str, int], dict[int, int], str]:
    """Totals by name, counts by key, and the text on standard error."""
    command = [sys.executable, "-m", "gilk", "dtrace", "-q", *options, "-n", CLAUSE, "-n", PRINT]
    command += ["-c", shlex.join(map(str, (build("crowd"), THREADS, keys, times)))]
    with (directory / "out").open("w+") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, env=dict(os.environ), check=False)
        out.seek(0)
        text = out.read()
    assert done.returncode == 0, done.stderr
    totals = {name: int(value) for name, value in re.findall(r"^([a-z]+) (\d+)$", text, re.M)}
    return totals, {int(key): int(value) for key, value in re.findall(r"^(\d+) (\d+)$", text, re.M)}, done.stderr


def check(directory: Path, keys: int, times: int, *options: str) -> None:
    totals, per, said = told(directory, keys, times, *options)
    calls = THREADS * times
    assert said == ""
    assert totals == {"calls": calls * keys, "sum": calls * keys * (keys - 1) // 2, "least": 0, "most": keys - 1}
    assert len(per) == keys
    assert set(per.values()) == {calls}


def test_no_update_of_eight_threads_is_lost(tmp_path: Path) -> None:
    check(tmp_path, 3000, 20, "-x", "aggsize=8m")


def test_updates_without_room_are_reported_and_no_others_are_lost(tmp_path: Path) -> None:
    totals, per, said = told(tmp_path, 3000, 2, "-x", "aggsize=64k")
    dropped = sum(int(count) for count in re.findall(r"(\d+) aggregation drops? on CPU", said))
    assert totals["calls"] == THREADS * 2 * 3000
    assert dropped > 0
    assert sum(per.values()) + dropped == totals["calls"]


def test_a_table_of_keyless_clauses_is_not_emptied_under_them(tmp_path: Path) -> None:
    """Nothing records that these clauses are running, so their table is not emptied, however full."""
    keys, times = 100, 4000
    clause = "pid$target:a.out:leaf:entry { @ = quantize(arg0); }"
    command = [sys.executable, "-m", "gilk", "dtrace", "-q", "-x", "aggsize=4k", "-x", "aggrate=10ms", "-n", clause]
    command += ["-c", shlex.join(map(str, (build("crowd"), THREADS, keys, times)))]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert done.stderr == ""
    assert sum(int(count) for count in re.findall(r"\|[@ ]* (\d+) *$", done.stdout, re.M)) == THREADS * keys * times


@pytest.mark.stress
@pytest.mark.timeout(1200)
def test_a_million_keys_during_a_minute_of_load(tmp_path: Path) -> None:
    check(tmp_path, 1_000_000, 30, "-x", "aggsize=512m")

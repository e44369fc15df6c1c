# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk anomalies`` prints first the stall that was planted in a program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gilk.cli.main import main
from tests.behaviour.harness import run_gilk
from tests.trace.machine import nested, write


def test_text_and_json_name_the_same_anomalies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [("frame", 1000, ("read\x1b[1m", 90_000 if n == 13 else 100 + n)) for n in range(30)]
    path = str(write(tmp_path / "a.parquet", nested(("main", 10, *frames))))
    assert main(["anomalies", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1. read\\x1b[1m slow: took 90us (+89.9us); ")
    assert lines[0].endswith("in the function itself")
    assert lines[1] == "   main > frame > read\\x1b[1m"
    assert lines[3].startswith("2. frame slow: ")
    assert lines[3].endswith("because of read\\x1b[1m")
    assert main(["anomalies", path, "--json", "--limit", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["found"], len(found["anomalies"])) == (2, 1)
    assert found["anomalies"][0]["at_ns"] == 5 + 13 * 1000 + sum(100 + n for n in range(13)) + 500
    assert main(["anomalies", path, "--min-time", "1ms"]) == 0
    assert capsys.readouterr().out == "61 calls, none of which stands out\n"


PROGRAM = """
#include <time.h>
#include <unistd.h>
static void spin(long ns)
{
	struct timespec from, now;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < ns);
}
__attribute__((noinline)) void fetch(int n) { if (n == 70) usleep(300000); else spin(20000); }
__attribute__((noinline)) void decode(int n) { spin(30000 + n); }
__attribute__((noinline)) void frame(int n) { fetch(n); decode(n); }
int main(void)
{
	for (int n = 0; n < 100; n++)
		frame(n);
	return 0;
}
"""


def test_a_planted_stall_is_found(tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    points = [option for name in ("main", "frame", "fetch", "decode") for option in ("-i", f"{name}:entry=time")]
    run_gilk("run", "-q", *points, "-o", "a.parquet", "--", "./p", cwd=tmp_path, env=gilk_on_path)
    done = run_gilk("anomalies", "a.parquet", "--json", cwd=tmp_path, env=gilk_on_path)
    first = json.loads(done.stdout)["anomalies"][0]
    assert (first["kind"], first["path"]) == ("slow", ["main", "frame", "fetch"])
    assert first["duration_ns"] > 300_000_000
    assert first["own_excess_ns"] > 299_000_000

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The studies of the paper on traces, as the examples do them, find the planted fault, wherever it was planted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples" / "trace"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1] / "src")}


def study(name: str, *words: str | Path, limit: float = 280) -> str:
    """The output of a study, which ends with status 0 only if it has found what was planted."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@needs_cc
@pytest.mark.parametrize(
    "slow", [pytest.param(name, marks=pytest.mark.stress) for name in ("history", "fonts", "icons", "sound")]
)
def test_the_freeze_study_finds_the_slow_loading_of_libraries(tmp_path: Path, slow: str) -> None:
    said = study("freeze/freeze_study.py", tmp_path, slow)
    assert "1. open_menu slow: " in said
    assert len(re.findall(r"^ +[\d.]+ ms  lib\w+\.so ", said, re.MULTILINE)) == 5
    assert f"The menu waits for lib{slow}.so: clock_nanosleep in wait_for_device takes the time." in said


needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")


@needs_ffmpeg
@pytest.mark.stress
@pytest.mark.parametrize(("late", "function"), [("disk", "read"), ("screen", "write")])
def test_the_player_study_finds_the_late_end(tmp_path: Path, late: str, function: str) -> None:
    said = study("player/player_study.py", tmp_path, late)
    assert re.search(rf"^\d\. {function} slow: took \d", said, re.MULTILINE)
    assert f"The picture stands still in {function}." in said


@needs_ffmpeg
@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_the_player_study_finds_the_wait_in_the_kernel(tmp_path: Path) -> None:
    said = study("player/player_study.py", tmp_path, "disk", "lab", limit=3500)
    assert "The picture stands still in pipe_read." in said


@needs_cc
@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_the_hang_study_finds_the_call_that_never_returned(tmp_path: Path) -> None:
    """The driver hangs with one processor, and with all. In both cases the machine is lost, and gilk says so and
    goes on."""
    said = study("hang/hang_study.py", tmp_path, limit=3500)
    assert "The call that never returned is standby_call_firmware." in said
    assert said.count("(relay-silent)") == 2
    assert "standby_enter ..." in said

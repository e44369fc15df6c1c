# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk run --on MACHINE: the kernel of a virtual machine, and a command there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gilk.trace.reading import read
from tests.behaviour.harness import run_gilk


def gilk(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run_gilk(*words, env=env, timeout=280)


@pytest.mark.stress
def test_run_counts_a_command_in_the_lab(gilk_on_path: dict[str, str]) -> None:
    """The output and the exit status are the command's own; calls that only it makes are counted exactly."""
    script = "import os\nfor _ in range(700): os.getsid(0)\nprint('done', flush=True)\nos._exit(7)"
    points = ["-i", "kernel:__x64_sys_getsid:entry=count", "-i", "kernel:do_syscall_64:entry=count"]
    done = gilk(gilk_on_path, "run", "--on", "lab", "--json", *points, "--", "python3", "-ISc", script)
    out, _, last = done.stdout.rstrip("\n").rpartition("\n")
    assert (done.returncode, out) == (7, "done"), done.stderr
    report = json.loads(last)
    assert report["counts"]["kernel:__x64_sys_getsid:entry"] == 700
    assert report["restored"] is True
    assert report["points"] == {"asked": 2, "spliced": 1, "refused": 1}


@pytest.mark.stress
def test_a_trace_in_the_lab_leaves_out_gilks_own_calls(gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    """gilk's own process there, the parent of the command, makes many calls meanwhile, which are not in the trace."""
    script = "import os\nfor _ in range(50): os.read(os.open('/etc/passwd', 0), 9)\nprint(os.getpid(), os.getppid())"
    words = ["trace", "--on", "lab", "--kernel=vfs_read", "--kernel=vfs_write", "-o", str(tmp_path / "t.parquet")]
    done = gilk(gilk_on_path, *words, "--", "python3", "-ISc", script)
    assert done.returncode == 0, done.stderr
    own, relay = map(int, done.stdout.split())
    calls = read(tmp_path / "t.parquet").flow.table.to_pylist()
    assert sum(row["pid"] == own and row["function"] == "vfs_read" for row in calls) >= 50
    assert not [row for row in calls if row["pid"] == relay]


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["--on", "moon", "-i", "kernel:vfs_read:entry=count"], "bad-machine"),
        (["--on", "ssh:", "-i", "kernel:vfs_read:entry=count"], "bad-machine"),
        (["--on", "lab", "-i", "main:entry=count", "--", "true"], "remote-kernel-only"),
        (["--flight", "-i", "main:entry=count", "--", "true"], "flight-in-kernel"),
        (["--on", "lab", "-p", "1", "-i", "kernel:vfs_read:entry=count"], "remote-kernel-only"),
    ],
)
def test_impossible_options_of_run_on_are_refused(gilk_on_path: dict[str, str], words: list[str], slug: str) -> None:
    done = gilk(gilk_on_path, "run", *words)
    assert done.returncode == 2
    assert f"({slug})" in done.stderr


def test_the_error_says_why_this_machines_kernel_cannot_be_instrumented(gilk_on_path: dict[str, str]) -> None:
    """Any obstacle may come first here: no root, a kernel of another kind, no driver, or only the function's name."""
    done = gilk(gilk_on_path, "run", "-i", "kernel:no_such_function_at_all:entry=count", "--", "true")
    assert done.returncode in (2, 4)
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("gilk: ")

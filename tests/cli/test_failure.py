# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages when output cannot be written, or memory cannot be had: they say what failed, and what to do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

import pytest

from tests.behaviour.harness import ENVIRONMENT
from tests.programs.build import build

RUN = ("run", "-i", "main:entry=count")


def gilk(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gilk", *words]
    environment = {**os.environ, **ENVIRONMENT}
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("scan", "--list", "/usr/bin/gzip"), marks=pytest.mark.stress),
        pytest.param(("scan", "--json", "/usr/bin/gzip"), marks=pytest.mark.stress),
        ("dtrace", "-q", "-n", "BEGIN { trace(1); exit(0); }"),
        (*RUN, "--json", "--", "/bin/bash", "-c", "true"),
    ],
    ids=" ".join,
)
def test_a_full_standard_output_is_reported_as_cannot_write(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = gilk(*words, stdout=full)
    assert "standard output cannot be written: No space left on device (cannot-write)" in done.stderr
    assert "Traceback" not in done.stderr and "GILK_CACHE" not in done.stderr
    assert done.returncode not in (0, 120)


def test_a_full_file_of_a_d_program_is_named() -> None:
    words = ("dtrace", "-q", "-n", 'BEGIN { printf("x"); exit(0); }', "-o", "/dev/full")
    done = gilk(*words)
    assert (done.returncode, done.stderr) == (1, "dtrace: /dev/full: No space left on device\n")
    answer = json.loads(gilk(*words, "--json", stdout=subprocess.PIPE).stdout)["error"]
    assert (answer["slug"], answer["message"]) == ("cannot-write", "/dev/full: No space left on device")


def limited(to: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (to, resource.RLIM_INFINITY))


def test_out_of_memory_in_gilk_itself_names_the_limit() -> None:
    done = run_within(150)
    assert "(out-of-memory)" in done.stderr
    assert "limited to 150 MiB here: ulimit -v unlimited" in done.stderr


@pytest.mark.parametrize(
    "limit", [pytest.param(n, marks=pytest.mark.stress if n % 40 else ()) for n in range(150, 270, 10)]
)
def test_a_limit_on_addresses_is_named_wherever_memory_runs_out(limit: int) -> None:
    """While libraries are mapped, while modules are read, as a thread begins, or in the process."""
    done = run_within(limit)
    assert done.returncode != 0
    assert "ulimit -v unlimited" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def run_within(limit: int) -> subprocess.CompletedProcess[str]:
    """Run a program with gilk, both with so many MiB of addresses."""
    words = (*RUN, "--", "/bin/bash", "-c", "true")
    return gilk(*words, stdout=subprocess.DEVNULL, preexec_fn=lambda: limited(limit << 20))


def test_refused_by_kernel_names_the_limit_on_addresses() -> None:
    """A launched program inherits the limit; gilk itself has enough memory here."""
    done = gilk(*RUN, "--", str(build("calls")), stdout=subprocess.DEVNULL, preexec_fn=lambda: limited(600_000 << 10))
    assert "(refused-by-kernel)" in done.stderr, done.stderr
    assert "its addresses may be limited (ulimit -v)" in done.stderr

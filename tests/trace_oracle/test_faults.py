# SPDX-License-Identifier: LGPL-2.1-or-later
"""Any of the processes dies at any time: the program goes on, and everything recorded can be read."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.trace.reading import read
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for
from tests.trace_oracle.paced import Paced, alpha, observe

SCOPE = ("--scope", "paced:")


@pytest.fixture
def paced() -> Iterator[Paced]:
    with Paced() as target:
        yield target


def client(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gilk", "trace", "--json", "--all", *SCOPE, *map(str, words)]
    return subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True)


def keeper_of(process: subprocess.Popen[str]) -> int:
    """The keeper, which is the client's child."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(found) == 1
    return int(found[0])


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def clean(target: Paced) -> bool:
    return wait_for(lambda: not leftovers(target.pid) and not differences(target.pid))


def test_the_client_is_killed_while_it_waits_for_the_start(paced: Paced, tmp_path: Path) -> None:
    tracing = client("--start", "call:left", "-p", paced.pid, "-o", tmp_path / "t")
    assert wait_for(lambda: differences(paced.pid))
    kill(tracing)
    assert clean(paced)
    paced.do("j")


def test_the_client_is_killed_while_it_follows(paced: Paced, tmp_path: Path) -> None:
    """Everything that the client had written can be read, up to the last block."""
    file = tmp_path / "t.parquet"
    tracing = client("-p", paced.pid, "-o", file)
    partial = file.with_name("t.parquet.partial")
    assert wait_for(lambda: differences(paced.pid))
    while len(differences(paced.pid)) and not (partial.exists() and partial.stat().st_size > 100_000):
        paced.do("a 500")
    kill(tracing)
    assert clean(paced)
    paced.do("a 3")
    calls = read(file).flow
    assert read(file).tally.partial
    names = [row["function"] for row in calls.table.to_pylist() if row["state"] == "whole"]
    assert names.count("beta") * 2 <= names.count("leaf")
    shown = run_gilk("show", file)
    assert shown.returncode == 0, shown.stderr


def test_the_client_is_killed_while_a_thread_is_held(paced: Paced, tmp_path: Path) -> None:
    """The client is stopped, the thread reaches the gate, and the client dies: the keeper opens the gate."""
    tracing = client("--start", "call:alpha", "-p", paced.pid, "-o", tmp_path / "t")
    assert wait_for(lambda: differences(paced.pid))
    tracing.send_signal(signal.SIGSTOP)
    paced.tell("a 2")
    kill(tracing)
    paced.done()
    assert clean(paced)


@pytest.mark.stress
def test_client_and_keeper_are_killed_while_a_thread_is_held(paced: Paced, tmp_path: Path) -> None:
    """Nobody is left to open the gate: it opens when its time is over. Then `gilk restore` repairs the code."""
    tracing = client("--start", "call:alpha", "-p", paced.pid, "-o", tmp_path / "t")
    assert wait_for(lambda: differences(paced.pid))
    keeper = keeper_of(tracing)
    tracing.send_signal(signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    paced.tell("a 2")
    kill(tracing)
    paced.done()
    paced.do("a 5")
    assert differences(paced.pid)
    assert run_gilk("restore", str(paced.pid)).returncode == 0
    assert differences(paced.pid) == []
    paced.do("a 5")


def test_the_program_ends_during_a_trace(tmp_path: Path) -> None:
    with Paced() as paced:
        found = observe(paced, "now", "exit", ["a 2", "x 0"])
    assert [name for name in found.functions if name in alpha(1)] == alpha(2)


def test_the_program_executes_another_during_a_trace(tmp_path: Path) -> None:
    with Paced() as paced:
        found = observe(paced, "now", "exit", ["a 2", "e /bin/true"])
    assert [name for name in found.functions if name in alpha(1)] == alpha(2)


def test_the_program_forks_during_a_trace(paced: Paced) -> None:
    """The child has the same code: it records as its parent does, and its calls are its own."""
    found = observe(paced, "call:alpha", "return:around", ["a 1", "f 2", "a 1", "j"])
    assert found.functions.count("alpha") == 4
    assert found.processes == 2
    assert found.states["left"] <= 2  # left(), and the end of the child


def test_threads_come_and_go_during_a_trace(paced: Paced) -> None:
    found = observe(paced, "call:alpha", "return:around", ["a 1", *["t 3"] * 20, "j"])
    assert found.functions.count("alpha") == 61
    assert found.functions.count("leaf") == 61 * 3 + 2
    assert found.threads == 21
    assert found.states["left"] == 1


def test_one_of_several_traced_processes_is_killed(paced: Paced, tmp_path: Path) -> None:
    with Paced() as other:
        tracing = client("--stop", "call:left", "-p", paced.pid, "-p", other.pid, "-o", tmp_path / "t.parquet")
        while tracing.poll() is None:
            for _ in range(300):  # it begins amid these, rather than between the last of them and the end
                for target in (paced, other):
                    target.do("a 2")
            other.do("j")
        assert clean(other)
    assert clean(paced)
    assert tracing.stdout
    assert json.loads(tracing.stdout.read().splitlines()[-1])["restored"] is True
    rows = read(tmp_path / "t.parquet").flow.table.to_pylist()
    for target in (paced, other):
        own = [row["function"] for row in rows if row["pid"] == target.pid]
        assert own.count("alpha") >= 2, read(tmp_path / "t.parquet").tally
        assert own.count("beta") == own.count("alpha")


def test_a_trace_on_a_full_disk_keeps_its_records(paced: Paced, tmp_path: Path) -> None:
    """Once gilk is ready, files may be no longer than 100 kB (setrlimit(2)): writing more fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))

    file = tmp_path / "t.parquet"
    try:
        found = observe(
            paced, "call:alpha", "call:left", ["a 1000"] * 20 + ["j"], when_waiting=limit, output=file
        )  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found.report["partial"] is True
    assert any("t.parquet" in note for note in found.report["notes"])
    assert found.functions.count("alpha") == 20_000  # all are in the report
    kept = read(file)
    assert kept.tally.partial
    assert 0 < kept.samples.num_rows < 200_000

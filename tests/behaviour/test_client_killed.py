# SPDX-License-Identifier: LGPL-2.1-or-later
"""The client dies at any moment: the target is restored and goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gilk
from gilk.errors import GilkError
from tests.behaviour.harness import ENVIRONMENT, Loop, cpu, differences, leftovers, signals, wait_for
from tests.programs.build import build, compile_text

#: Plans, applies, drains, changes and closes again and again, so that it may die in any of these.
CLIENT = """
import sys
import gilk
attach = gilk.attach  # what it needs is imported by then
print("begun", flush=True)
while True:
    with attach(int(sys.argv[1])) as target, target.session() as session:
        session.insert("*:blocks", gilk.count)
        for _ in range(5):
            probes = session.insert("*:entry", gilk.time)
            session.poll()
            session.remove(probes)
"""


def kill_at_random(times: int, program: str, seed: int) -> None:
    chance = random.Random(seed)
    with Loop([build(program)]) as loop:
        for turn in range(times):
            words = [sys.executable, "-c", CLIENT, str(loop.pid)]
            with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE) as client:
                assert client.stdout is not None and client.stdout.readline() == b"begun\n"
                delay = chance.uniform(0.0, 1.2)
                time.sleep(delay)  # any moment will do
                assert client.poll() is None
                client.send_signal(signal.SIGKILL)
            clean = wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))
            assert clean, (turn, delay, leftovers(loop.pid), differences(loop.pid))
            assert loop.alive()
            ticks = cpu(loop.pid)
            assert wait_for(lambda: cpu(loop.pid) > ticks), (turn, delay)


@pytest.mark.parametrize(
    ("times", "program"),
    [(3, "hot8"), pytest.param(3, "signals", marks=pytest.mark.stress), (2, "fork"),
     pytest.param(200, "hot8", marks=pytest.mark.stress),
     pytest.param(50, "exceptions", marks=pytest.mark.stress), pytest.param(50, "syscalls", marks=pytest.mark.stress)],
)  # fmt: skip
def test_the_target_is_restored_when_the_client_is_killed_at_random_moments(times: int, program: str) -> None:
    kill_at_random(times, program, seed=times)


#: A client that is interrupted six times, anywhere in its work on a target; it must raise nothing else.
INTERRUPTED = """
import random, signal, sys
import gilk
def interrupt(number, frame): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(1)
for _ in range(6):
    try:
        with gilk.attach(int(sys.argv[1])) as target, target.session() as session:
            session.insert("hot*:blocks", gilk.count)
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.1))
            while True:
                session.remove(session.insert("hot*:entry", gilk.count))
    except KeyboardInterrupt:
        print(session.restored)
"""


@pytest.mark.stress
def test_a_client_may_be_interrupted_while_it_awaits_an_answer() -> None:
    """The next request must not get the answer to the interrupted one."""
    with Loop([build("hot8")]) as loop:
        words = [sys.executable, "-c", INTERRUPTED, str(loop.pid)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=250, env={**os.environ, **ENVIRONMENT})
        assert (done.returncode, done.stderr) == (0, "")
        assert set(done.stdout.split()) <= {"True", "None"}
        assert len(done.stdout.split()) == 6
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.stress) for n in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_client_that_is_told_to_end_restores_the_target(number: signal.Signals, tmp_path: Path) -> None:
    """The command takes everything out, prints its report, and tells of the signal by its exit status."""
    with Loop([build("hot8")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "-i", "*:blocks=count", "-p", str(loop.pid)]
        words += ["-o", str(tmp_path / "out")]
        client = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE)
        assert wait_for((tmp_path / "out.partial").exists)
        assert differences(loop.pid)
        client.send_signal(number)
        out, _ = client.communicate(timeout=250)
        assert b'"restored": true' in out
        assert differences(loop.pid) == []
        assert leftovers(loop.pid) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.stress)]
)
def test_a_client_that_is_told_to_end_while_it_plans_inserts_nothing(number: signal.Signals, status: int) -> None:
    """Nothing goes in any more, and there is nothing to report."""
    with Loop([build("hot8")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "-i", "libc:*:blocks=count", "-p", str(loop.pid)]
        client = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE)
        assert wait_for(lambda: _caught(client.pid, signal.SIGTERM))  # from here on it plans
        client.send_signal(number)
        out, _ = client.communicate(timeout=250)
        assert (client.returncode, out) == (status, b"")
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def _caught(pid: int, number: signal.Signals) -> bool:
    return bool(int(signals(pid)[f"{pid} SigCgt:"], 16) >> (number - 1) & 1)


def test_the_target_is_restored_when_the_terminal_goes_away() -> None:
    """A signal to the whole process group of the client does not reach the keeper."""
    with Loop([build("hot8")]) as loop:
        words = [sys.executable, "-m", "gilk", "run", "-q", "-i", "*:blocks=count", "-p", str(loop.pid)]
        client = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, start_new_session=True)
        assert wait_for(lambda: differences(loop.pid))
        os.killpg(client.pid, signal.SIGKILL)
        client.wait()
        assert wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))


def test_a_launched_program_goes_on_without_its_client() -> None:
    read, write = os.pipe()
    words = [sys.executable, "-m", "gilk", "run", "-q", "-i", "*:blocks=count", "--", str(build("hot8")), "loop", "4"]
    client = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=write)
    os.close(write)
    with os.fdopen(read) as output:
        assert output.readline() == "ready\n"
        time.sleep(0.5)
        client.kill()
        client.wait()
        assert output.read().splitlines()[-1] == "ok hot8"


HELD = """
#include <unistd.h>
__attribute__((noipa)) int inner(int x) { return x + 1; }
__attribute__((noipa)) void waits(void) { inner(3); pause(); }
int main(void) { inner(1); waits(); return 0; }
"""


@pytest.mark.parametrize("words", [("run", "-i", "*:entry=count"), ("trace", "--scope", "held:")], ids=lambda w: w[0])
def test_the_file_of_a_killed_client_has_counts_and_a_description(words: tuple[str, ...], tmp_path: Path) -> None:
    program, file = compile_text(tmp_path, "held", HELD, "-O1"), tmp_path / "held.parquet"
    command = [sys.executable, "-m", "gilk", *words, "-q", "-o", file, "--", program]
    with subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}) as client:
        assert wait_for(lambda: _is_noted(file, words[0] == "trace"))
        client.kill()
    noted = gilk.read(file)
    assert noted.tally.partial and noted.tally.duration > 1_000_000_000
    if words[0] == "run":
        assert noted.tally.counts["held:inner:entry"] == 2
    else:
        calls = {row["function"]: row for row in noted.flow.table.to_pylist()}
        assert calls["waits"]["state"] == "open"
        assert calls["waits"]["start"] + calls["waits"]["duration"] >= noted.tally.duration


def _is_noted(file: Path, traced: bool) -> bool:
    try:
        tally = gilk.read(file).tally
    except GilkError:
        return False
    return tally.trace is not None if traced else tally.counts.get("held:inner:entry") == 2

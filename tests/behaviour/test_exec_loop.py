# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that executes itself again and again (tests/programs/exec.c) can be attached to: it calls hot() 100 times in
each of its lives, which last about a millisecond."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.api import runs
from tests.behaviour.harness import Loop, cpu, differences, leftovers, run_gilk, wait_for
from tests.programs.build import build

LIFE = 100  # calls of hot()


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop([build("exec")]) as made:
        yield made
        assert wait_for(lambda: not leftovers(made.pid) and not differences(made.pid))


def test_a_run_counts_in_one_life(loop: Loop) -> None:
    """It ends with that life, in the midst of which the instruments came."""
    done = run_gilk("run", "--json", "-i", "hot:entry=count", "-i", "carry_on:entry=count", "-p", str(loop.pid))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    hits = {point.split(":")[1]: count for point, count in report["counts"].items()}
    assert hits["hot"] <= LIFE and (hits["hot"] == LIFE) >= hits["carry_on"]
    assert any("executed another program" in note for note in report["notes"])


def test_a_run_that_follows_counts_in_all_lives(loop: Loop) -> None:
    """The first life is seen from somewhere on, and the last until the run ends; all others are whole."""
    running = runs.prepare_run([runs.parse_request("hot:entry=count")], [loop.pid], (), follow=True)
    running.begin()
    running.wait(None, lambda: running.progress().hits > 5 * LIFE, lambda _: None)
    lives = [one.counts for one in running.finish().programs]
    for process in running.processes:
        process.keeper.leave()
    assert [list(one.values()) for one in lives[1:-1]] == [[LIFE]] * (len(lives) - 2)
    assert all(sum(one.values()) <= LIFE for one in lives)


def test_a_trace_ends_with_the_life_that_it_began_in(loop: Loop, tmp_path: Path) -> None:
    done = run_gilk("trace", "--json", "--scope", "exec:", "-p", str(loop.pid), "-o", "t.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any("executed another program" in note for note in json.loads(done.stdout)["notes"])


@pytest.mark.parametrize(("flags", "program", "said"), [
    ((), "BEGIN { exit(0); }", ""),
    (("--follow",), "pid$target::hot:entry { @ = count(); } pid$target::hot:entry /++n == 1000/ { exit(0); }", "1000"),
])  # fmt: skip
def test_d_programs_attach(loop: Loop, flags: tuple[str, ...], program: str, said: str) -> None:
    done = run_gilk("dtrace", "-q", *flags, "-p", str(loop.pid), "-n", program)
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr


def test_python_is_told_that_the_process_executes_another_program(loop: Loop) -> None:
    """It is not stopped for that, since only the caller knows how to look at it again."""
    with gilk.attach(loop.pid) as target:
        target.functions("hot")
        began = target.process.has_executed
        assert wait_for(began)
        with pytest.raises(gilk.TargetError) as raised:
            target.session()
        assert raised.value.slug == "no-such-process"
        assert f"process {loop.pid} has executed another program" in raised.value.message


#: A client that holds a process and says nothing more; its keeper waits for one second.
SILENT = """import sys
from gilk.targets import serving, spawning
serving._PATIENCE = 1.0
spawning.begin()
from gilk.targets.process import attach
process = attach(int(sys.argv[1]))
process.hold()
print("held", flush=True)
sys.stdin.read()
process.release()
process.close()
"""


def test_a_held_process_does_not_wait_for_a_silent_client() -> None:
    pipe = subprocess.PIPE
    with Loop([build("work")]) as loop:
        with subprocess.Popen([sys.executable, "-c", SILENT, str(loop.pid)], stdin=pipe, stdout=pipe) as client:
            assert client.stdin and client.stdout and client.stdout.readline() == b"held\n"
            before = cpu(loop.pid)
            assert wait_for(lambda: cpu(loop.pid) > before)
            client.stdin.close()
            assert client.wait() == 0
        assert not differences(loop.pid) and not leftovers(loop.pid)

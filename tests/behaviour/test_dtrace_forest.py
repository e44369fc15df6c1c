# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk dtrace --follow -p A -p B`: one D program for several processes and all that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, wait_for
from tests.behaviour.test_run_follow import tracer
from tests.programs.build import compile_text

#: It calls `tick` first, so that a probe which comes later than the program's first instruction might miss the call.
CHILD = '__attribute__((noinline, noclone)) void tick(void) { asm volatile(""); } int main(void) { tick(); return 0; }'


class Shell:
    """A shell that runs commands when it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def run(self, command: object, times: int) -> None:
        assert self.process.stdin and self.process.stdout
        for _ in range(times):
            self.process.stdin.write(f"{command}; echo done\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n"

    def is_clean(self) -> bool:
        return not (tracer(self.pid) or differences(self.pid) or leftovers(self.pid))

    def end(self) -> None:
        """End the shell by the end of its commands."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def shells() -> Iterator[tuple[Shell, Shell]]:
    made = Shell(), Shell()
    with ExitStack() as held:
        for shell in made:
            held.enter_context(shell.process)
            held.callback(shell.process.kill)
        yield made


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("child"), "child", CHILD, "-O1", "-w")


def following(text: str, *words: str) -> subprocess.Popen[str]:
    """`gilk dtrace --follow`, once all its probes are in."""
    asked = [sys.executable, "-m", "gilk", "dtrace", "--follow", "-q", *words, "-n"]
    client = subprocess.Popen(
        [*asked, text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
    )
    assert client.stdout and client.stderr
    first = client.stdout.readline()
    assert first == "begun\n", first + client.stderr.read()
    return client


BEGUN = 'BEGIN { printf("begun\\n"); } END { printa("%s %d %@d\\n", @); }'


def test_one_program_and_one_answer_for_all(shells: tuple[Shell, Shell], child: Path) -> None:
    one, other = shells
    text = f"pid$target:child:tick:entry {{ @[execname, ppid] = count(); }} {BEGUN}"
    with following(text, "-p", str(one.pid), "-p", str(other.pid)) as client:
        one.run(child, 3)
        other.run(child, 2)
        client.send_signal(signal.SIGINT)
        said, errors = client.communicate(timeout=60)
    assert {line for line in said.splitlines() if line} == {f"child {one.pid} 3", f"child {other.pid} 2"}
    assert client.returncode == 0, errors
    assert "dtrace: followed 7 programs, 5 with probes" in errors
    assert one.is_clean() and other.is_clean()
    one.end()
    other.end()


def test_a_description_means_the_tree_of_the_process_that_it_names(shells: tuple[Shell, Shell], child: Path) -> None:
    one, other = shells
    text = (
        f'pid{one.pid}:child:tick:entry {{ @["first", ppid] = count(); }}'
        f'pid{other.pid}:child:tick:entry {{ @["second", ppid] = count(); }} {BEGUN}'
    )
    with following(text) as client:
        other.run(child, 2)
        one.run(child, 1)
        client.send_signal(signal.SIGINT)
        said, errors = client.communicate(timeout=60)
    assert {line for line in said.splitlines() if line} == {f"first {one.pid} 1", f"second {other.pid} 2"}, errors
    assert one.is_clean() and other.is_clean()


def test_it_ends_when_the_last_tree_has_ended(shells: tuple[Shell, Shell], child: Path) -> None:
    one, other = shells
    text = f"pid$target:child:tick:entry {{ @[execname, ppid] = count(); }} {BEGUN}"
    with following(text, "-p", str(one.pid), "-p", str(other.pid)) as client:
        one.run(child, 1)
        one.end()
        other.run(child, 2)
        assert client.poll() is None
        other.end()
        said, errors = client.communicate(timeout=60)
    assert {line for line in said.splitlines() if line} == {f"child {one.pid} 1", f"child {other.pid} 2"}, errors
    assert client.returncode == 0


def test_all_are_clean_when_the_client_is_killed(shells: tuple[Shell, Shell], child: Path) -> None:
    one, other = shells
    text = f"pid$target:libc*:write:entry {{ @[execname, ppid] = count(); }} {BEGUN}"
    with following(text, "-p", str(one.pid), "-p", str(other.pid)) as client:
        one.run(child, 1)
        assert tracer(one.pid) and tracer(other.pid)
        client.kill()
    assert wait_for(lambda: one.is_clean() and other.is_clean())
    one.run(child, 1)
    other.run(child, 1)

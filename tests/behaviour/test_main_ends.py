# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose main thread ends (pthread_exit(3)) while others go on: /proc/PID then tells nothing of their memory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from tests.behaviour.harness import differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_watch_dog import LONG, Session
from tests.programs.build import build


class Program:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [build("mainends")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.line() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def tid(self) -> int:
        """The thread that goes on; /proc has the process's memory by its number, too."""
        (other,) = {int(name) for name in os.listdir(f"/proc/{self.pid}/task")} - {self.pid}
        return other

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("x")
        self.process.stdin.flush()
        return self.line()

    def end_main(self) -> None:
        assert self.ask() == "alone"

    def is_clean(self) -> bool:
        return (differences(self.tid), leftovers(self.tid)) == ([], [])


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    with program.process:
        yield program
        program.process.stdin.close()  # type: ignore[union-attr]
        assert program.process.wait(LONG) == 0


def count(session: gilk.Session) -> int:
    session.poll()
    return sum(session.counts().values())


def test_a_session_goes_on_when_the_main_thread_ends(program: Program) -> None:
    with gilk.attach(program.pid) as target, target.session() as session:
        session.insert("step:entry", gilk.count)
        program.end_main()
        assert program.ask() == "10"
        assert count(session) == 10
        session.insert("letter:entry", gilk.count)
        assert program.ask() == "20"
        assert wait_for(lambda: count(session) == 20 + 1)  # it is about to wait for the next letter
        assert differences(program.tid)
    assert program.is_clean()
    assert program.ask() == "30"


def test_a_program_without_its_main_thread_is_attached_to(program: Program) -> None:
    program.end_main()
    with gilk.attach(program.pid) as target, target.session() as session:
        session.insert("step:entry", gilk.count)
        assert [program.ask(), program.ask()] == ["10", "20"]
        assert count(session) == 20
    assert program.is_clean()
    assert program.ask() == "30"


def test_d_runs_in_a_program_without_its_main_thread(program: Program, tmp_path: Path) -> None:
    program.end_main()
    text = 'BEGIN { printf("begun\\n"); } pid$target:a.out:step:entry { @ = count(); }'
    session = Session(["dtrace", "-q", "-n", text, "-p", str(program.pid)], cwd=tmp_path, stdout=subprocess.PIPE)
    assert session.client.stdout is not None and session.client.stdout.readline() == b"begun\n"
    assert [program.ask(), program.ask()] == ["10", "20"]
    session.client.send_signal(signal.SIGINT)
    assert session.client.communicate(timeout=LONG)[0].decode().split() == ["20"]
    assert wait_for(program.is_clean)


def test_a_killed_client_leaves_nothing_in_a_program_without_its_main_thread(program: Program, tmp_path: Path) -> None:
    session = Session(["run", "-i", "step:entry=count", "-p", str(program.pid)], cwd=tmp_path)
    assert wait_for(lambda: bool(differences(program.tid)))
    program.end_main()
    session.client.kill()
    assert wait_for(program.is_clean)
    assert program.ask() == "10"


def test_a_program_without_its_main_thread_is_scanned(program: Program) -> None:
    program.end_main()
    done = run_gilk("scan", f"pid:{program.pid}", "step", "--list")
    assert done.returncode == 0 and "step" in done.stdout, done.stderr


def test_the_end_of_the_last_thread_is_the_end_of_the_program(program: Program) -> None:
    with pytest.raises(TargetError) as caught, gilk.attach(program.pid) as target, target.session() as session:
        session.insert("step:entry", gilk.count)
        program.end_main()
        program.process.stdin.close()  # type: ignore[union-attr]
        assert wait_for(lambda: not target.process.alive)
        session.insert("letter:entry", gilk.count)
    assert caught.value.slug == "no-such-process"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each part of a command is killed, or told to end, at each of its steps: the target goes on, its code is what it
was or ``gilk restore`` makes it so, and no process of gilk is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from tests.behaviour.harness import ENVIRONMENT, Loop, cpu, differences, leftovers, wait_for
from tests.programs.build import build
from tests.seldom import seldom

MARK = "GILK_WATCH_DOG"
LONG = 600  # seconds within which anything ends, even beside busy loops
COMMANDS = {
    "run": ["run", "-q", "-i", "hot8:*:blocks=count", "--for", "5"],
    "trace": ["trace", "-q", "--scope", "hot8:", "--stop", "for:5s"],
    "dtrace": ["dtrace", "-q", "-n", "pid$target:hot8::entry { @[probefunc] = count(); } tick-5s { exit(0); }"],
}
PARTS = {"client": ("",), "keeper": ("gilk-keeper",), "hub": ("gilk-broker",), "both": ("gilk-keeper", "")}
#: The steps of a command that can be recognised from outside, each with its test on the process.
STEPS: dict[str, Callable[[int], object]] = {
    "held": lambda pid: True,
    "mapped": leftovers,
    "in force": differences,
}


class Session:
    """A running command, and the processes that belong to it."""

    def __init__(self, words: Sequence[str], **options: object) -> None:
        self._mark = f"{MARK}={uuid.uuid4()}"
        name, value = self._mark.split("=")
        command = [sys.executable, "-m", "gilk", *words]
        self.client = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT, name: value}, **options)  # type: ignore[call-overload]

    def helpers(self) -> dict[str, int]:
        """The keeper and the hub of the command: process numbers by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[(entry / "comm").read_text().strip()] = int(entry.name)
        return {name: pid for name, pid in found.items() if name.startswith("gilk-")}

    def send(self, part: str, number: signal.Signals) -> None:
        """Send a signal to the processes of that part which exist."""
        helpers = self.helpers()
        for name in PARTS[part]:
            with suppress(ProcessLookupError):
                if not name:
                    self.client.send_signal(number)
                elif name in helpers:
                    os.kill(helpers[name], number)

    def over(self) -> bool:
        return self.client.poll() is not None and not self.helpers()


def attacked(command: str, part: str, number: signal.Signals, step: str, directory: Path) -> None:
    with Loop([build("hot8")]) as loop:
        words = [*COMMANDS[command], "-o", str(directory / "out"), "-p", str(loop.pid)]
        session = Session(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert wait_for(lambda: session.client.poll() is not None or _is_at(session, loop.pid, step), LONG)
            session.send(part, number)
            assert wait_for(session.over, LONG), (session.client.poll(), session.helpers())
        finally:
            session.client.kill()
        ticks = cpu(loop.pid)
        assert wait_for(lambda: cpu(loop.pid) > ticks), "it does not go on"
        if part in ("keeper", "both") and number == signal.SIGKILL:
            with suppress(TargetError):
                gilk.restore(loop.pid)
        else:
            assert leftovers(loop.pid) == []
        assert differences(loop.pid) == []
        loop.finish()


def _is_at(session: Session, pid: int, step: str) -> object:
    return "gilk-keeper" in session.helpers() and STEPS[step](pid)


def launched(command: str, part: str, number: signal.Signals, directory: Path) -> None:
    """Do it with a launched program, which says that it has begun, and at the end that all its checks held."""
    read, write = os.pipe()
    words = [*COMMANDS[command], "-o", str(directory / "out")]
    program = [str(build("hot8")), "loop", "4"]
    words += ["-c", " ".join(program)] if command == "dtrace" else ["--", *program]
    session = Session(words, stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as output:
        try:
            assert output.readline() == "ready\n"
            session.send(part, number)
            assert output.read().splitlines()[-1] == "ok hot8"
            assert wait_for(session.over, LONG)
        finally:
            session.client.kill()
            session.client.wait()


SHORT = [
    ("run", "keeper", signal.SIGKILL), ("trace", "both", signal.SIGKILL), ("dtrace", "hub", signal.SIGKILL),
    ("run", "client", signal.SIGKILL), ("run", "both", signal.SIGKILL), ("run", "client", signal.SIGTERM),
    ("dtrace", "keeper", signal.SIGKILL),
]  # fmt: skip
NUMBERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize(("command", "part", "number"), seldom(SHORT, 2))
def test_an_attached_program_goes_on_when_a_part_of_the_command_is_killed(
    command: str, part: str, number: signal.Signals, tmp_path: Path
) -> None:
    attacked(command, part, number, "in force", tmp_path)


@pytest.mark.parametrize(
    ("command", "part", "number"), seldom([("run", "client", signal.SIGTERM), ("run", "keeper", signal.SIGKILL)], 1)
)
def test_a_launched_program_goes_on_when_a_part_of_the_command_is_killed(
    command: str, part: str, number: signal.Signals, tmp_path: Path
) -> None:
    launched(command, part, number, tmp_path)


@pytest.mark.stress
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("command", "part", "number"), [*itertools.product(COMMANDS, PARTS, NUMBERS)])
def test_an_attached_program_goes_on_when_a_part_is_killed_at_each_step(
    command: str, part: str, number: signal.Signals, step: str, tmp_path: Path
) -> None:
    attacked(command, part, number, step, tmp_path)


@pytest.mark.stress
@pytest.mark.parametrize(("command", "part", "number"), [*itertools.product(COMMANDS, PARTS, NUMBERS)])
def test_a_launched_program_goes_on_when_any_part_is_killed_at_any_step(
    command: str, part: str, number: signal.Signals, tmp_path: Path
) -> None:
    launched(command, part, number, tmp_path)


def test_a_program_that_has_not_begun_ends_with_its_keeper(tmp_path: Path) -> None:
    """Nobody could see such a program any more, and its code may be half changed."""
    begun = tmp_path / "begun"
    session = Session(["run", "-q", "-i", "libc*:*:blocks=count", "--", "touch", str(begun)])
    try:
        assert wait_for(lambda: session.client.poll() is not None or "gilk-keeper" in session.helpers(), LONG)
        session.send("keeper", signal.SIGKILL)
        assert wait_for(session.over, LONG)
        assert session.client.returncode != 0
        assert not begun.exists()
    finally:
        session.client.kill()
        session.client.wait()

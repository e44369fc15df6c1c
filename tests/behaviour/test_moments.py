# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that fork, execute, open libraries, make threads, take signals and end while instruments come and go, and
programs that are killed while a command is about them: at any moment there is the right error or none, what the program
computes is right, and nothing is left behind. A seed that is printed gives the same choices again."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import ToldByLetters, differences, leftovers, mortal, wait_for
from tests.behaviour.test_watch_dog import LONG, Session
from tests.behaviour.waiting import give_way
from tests.programs.build import build

SEED = os.environ.get("GILK_SEED") or str(random.randrange(1 << 32))
ROUNDS = int(os.environ.get("GILK_ROUNDS", "200"))
CHANGES = 2  # at the most, between two letters
DEEDS = "fvdts"
ENDS = ("", "e", "q", "x")
#: The errors that there may be once the program has ended or executes another, each as a member of the set.
GONE = {"no-such-process", "image-gone"}
POINTS = [
    ("*:entry", gilk.count), ("*:blocks", gilk.count), ("*:entry", gilk.time), ("top:entry", gilk.args),
    ("libc*:malloc:entry", gilk.count), ("libz*:crc32:entry", gilk.count), ("*:blocks-post", gilk.stamp),
]  # fmt: skip


class Moments(ToldByLetters):
    """The running program tests/programs/bare/moments.c."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [build("moments")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdout and self.process.stdout.readline() == b"ready\n"
        give_way(self.process.pid)

    def end(self) -> tuple[int, str, str]:
        """The exit status, the answers to all letters, and the complaints."""
        if self.process.poll() is None:
            out, error = self.process.communicate(b".", LONG)
        else:
            out, error = self.process.communicate()
        return self.process.returncode, out.decode(), error.decode()


def meddle(program: Moments, deeds: str, chance: random.Random) -> None:
    """Put instruments in and take them out again, while the program does its deeds. Raises TargetError."""
    with gilk.attach(program.pid) as target, target.session() as session:
        session.insert("top:entry", gilk.count)
        for deed in deeds:
            program.send(deed)
            for _ in range(chance.randint(1, CHANGES)):
                change(session, chance)
        while deeds[-1] in ENDS:  # until the end is noticed
            change(session, chance)


def change(session: gilk.Session, chance: random.Random) -> None:
    points, instrument = chance.choice(POINTS)
    try:
        probes = session.insert(points, instrument)
    except gilk.UsageError as error:
        assert error.slug == "no-such-image" and points.startswith("libz"), error  # the library is not open just now
        return
    session.poll()
    session.remove(probes)


def one_round(seed: str) -> None:
    chance = random.Random(seed)
    deeds, end = "".join(chance.choices(DEEDS, k=chance.randint(1, 4))), chance.choice(ENDS)
    print(f"GILK_SEED={seed}: {deeds}{end}")
    program = Moments()
    try:
        meddle(program, deeds + end, chance)
        assert not end
    except gilk.TargetError as error:
        assert end and error.slug in GONE, error
    if end in ("e", "q"):
        assert program.process.wait(LONG) == 7
    else:
        assert wait_for(lambda: not leftovers(program.pid) and not differences(program.pid))
    status, said, complaints = program.end()
    assert (status, complaints) == (7 if end in ("e", "q") else 0, "")
    again = ["ready"] * (end == "x")
    assert said.split("\n")[:-1] == [*deeds, *again, *(["ok moments"] if status == 0 else [])]


@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.stress)])
def test_instruments_come_and_go_whatever_a_program_does(rounds: int) -> None:
    for number in range(rounds):
        one_round(SEED if not number else f"{SEED}.{number}")


COMMANDS: list[Sequence[str]] = [
    ["run", "-i", "*:entry=count"], ["run", "-i", "*:blocks=stamp", "-o", "f.parquet"], ["trace"], ["top"], ["offcpu"],
    ["dtrace", "-n", "pid$target:::entry { @[probefunc] = count(); }"],
    ["dtrace", "-n", "pid$target:a.out::entry { @[ustack()] = count(); } tick-100hz {}"],
]  # fmt: skip


def killed(command: Sequence[str], seed: str, directory: Path) -> None:
    """Kill the target at a moment of the command; the command says so, or has had its answer."""
    chance = random.Random(seed)
    print(f"GILK_SEED={seed}: {command}")
    with mortal([build(chance.choice(["hot8", "work", "signals"]))]) as program:
        words = [*command, "-p", str(program.pid)]
        session = Session(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        timer = threading.Timer(chance.uniform(0, 6), os.kill, (program.pid, signal.SIGKILL))
        timer.start()
        _, complaints = session.client.communicate(timeout=LONG)
        timer.join()
        assert program.wait(LONG) == -signal.SIGKILL
    slugs = re.findall(r"\(([a-z-]+)\)$", complaints.decode(), re.MULTILINE)
    status = session.client.returncode
    assert status == 0 or (status == 4 and slugs[:1] == ["no-such-process"]) or is_of_dtrace(status, complaints), (
        status,
        complaints.decode(),
    )
    assert wait_for(session.over, LONG)


def is_of_dtrace(status: int, complaints: bytes) -> bool:
    """Whether these are the words of `gilk dtrace`, which names no slugs: DTrace's own before the program has begun."""
    return status == 1 and re.search(rb"^dtrace: .*(has ended|No such process)", complaints, re.MULTILINE) is not None


@pytest.mark.stress
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.stress)])
def test_commands_end_with_their_target(rounds: int, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    for number in range(rounds):
        killed(chance.choice(COMMANDS), f"{SEED}.{number}", tmp_path)

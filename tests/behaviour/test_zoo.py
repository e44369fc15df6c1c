# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many kinds of programs at once; sessions come and go at all of them, and clients are killed at any moment.

Each program checks its own work all the time, and must find at the end that all was right. Several clients work beside
each other, each on programs of its own: where many threads wait for few processors, a round is mostly waiting. The long
form has GILK_ZOO_ROUNDS rounds of attach, insert, remove and detach, or as many as begin within GILK_ZOO_MINUTES (`make
zoo`).

A round may end with the error `busy`: with a hundred busy threads on two processors, a thread that must leave an
instrument may not get its turn in time.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, wait_for
from tests.programs.build import build

ROUNDS = int(os.environ.get("GILK_ZOO_ROUNDS", "10000"))
MINUTES = float(os.environ.get("GILK_ZOO_MINUTES", "inf"))
CLIENTS = 6
SOME = ("hot8", "signals", "threads+O0", "exceptions+Os", "recursion+static", "setjmp+nopie")
ALL = (
    *SOME, "hot8+static-pie", "hot8+stripped", "signals+O3", "signals+ibt", "threads+static", "exceptions+nopie",
    "recursion+O0", "setjmp+O0", "tailcall", "tailcall+Os", "jumptable", "jumptable+O0", "redzone", "redzone+O3", "ucontext", "green",
    "handlers", "handlers+O0", "ifunc", "ifunc+static", "avx", "smallstack", "ipara", "unwind", "syscalls", "syscalls+ibt", "work",
)  # fmt: skip
RIGHT = {"done", "killed", "busy"}
KILLED = 0.2  # the share of rounds that end by a kill
LATEST = 0.5  # seconds within which a client is killed, whatever it is doing

#: Prints the process that it works on, and the result: the slug if there was an error.
CLIENT = """
import random, sys
import gilk
from gilk.errors import GilkError
chance = random.Random(int(sys.argv[1]))
pids = [int(word) for word in sys.argv[2:]]
choices = [("*:entry", gilk.time), ("*:entry", gilk.count), ("*:blocks", gilk.count), ("*:blocks-post", gilk.count)]
while True:
    pid = chance.choice(pids)
    print("begun", pid, flush=True)
    try:
        with gilk.attach(pid) as target, target.session() as session:
            first = session.insert(*chance.choice(choices))
            session.poll()
            session.insert(*chance.choice(choices))
            session.remove(first)
            session.poll()
        print("done" if session.restored else "spoilt", pid, flush=True)
    except GilkError as error:
        print(error.slug, pid, error, file=sys.stderr, flush=True)
        print(error.slug, pid, flush=True)
"""


def clean(pid: int) -> bool:
    return not leftovers(pid) and not differences(pid)


def wait_until_clean(pid: int) -> None:
    """Raises AssertionError, which says what is left."""
    try:
        wait_for(lambda: clean(pid))
    except AssertionError as error:
        raise AssertionError(f"left in {pid}: {leftovers(pid)}, {differences(pid)}\n{error}") from None


@dataclass
class Visitor:
    """Runs one client after another against the programs ``pids``, which only it uses. ``said`` counts how rounds
    ended."""

    pids: Sequence[int]
    chance: random.Random
    end: float  # by time.monotonic(); no round begins later
    said: Counter[str] = field(default_factory=Counter)

    def rounds(self, number: int) -> None:
        while self.said.total() < number and time.monotonic() < self.end:
            self._one_client(number)

    def _one_client(self, number: int) -> None:
        """Run a client until it is killed, ``number`` rounds are over, or time is up."""
        words = [sys.executable, "-c", CLIENT, str(self.chance.getrandbits(32)), *map(str, self.pids)]
        with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True) as client:
            with contextlib.ExitStack() as stack:
                stack.callback(client.kill)
                assert client.stdout
                for line in client.stdout:
                    word, pid = line.split()
                    if word == "begun" and self.chance.random() < KILLED:
                        return self._kill(client, int(pid))
                    if word != "begun":
                        self.said[word] += 1
                        if self.said.total() >= number or time.monotonic() > self.end:
                            return None
        raise AssertionError("the client has ended by itself")

    def _kill(self, client: subprocess.Popen[str], pid: int) -> None:
        time.sleep(self.chance.uniform(0, LATEST))  # at any moment
        client.send_signal(signal.SIGKILL)
        client.wait()
        wait_until_clean(pid)
        self.said["killed"] += 1


def zoo(kinds: Sequence[str], rounds: int, seed: int, minutes: float = float("inf")) -> Counter[str]:
    """Run ``rounds`` rounds, or as many as begin in time. Returns how they ended."""
    with contextlib.ExitStack() as stack:
        loops = [stack.enter_context(Loop([build(*_parted(kind))])) for kind in kinds]
        end = time.monotonic() + 60 * minutes
        shares = [[loop.pid for loop in loops[first::CLIENTS]] for first in range(CLIENTS)]
        visitors = [Visitor(pids, random.Random(f"{seed}.{at}"), end) for at, pids in enumerate(shares)]
        try:
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(lambda visitor: visitor.rounds(-(-rounds // CLIENTS)), visitors))
        finally:  # also where one has failed, and the others have gone on
            said = sum((visitor.said for visitor in visitors), Counter[str]())
            print(f"{said.total()} rounds: {dict(said)}")
        assert all(loop.alive() for loop in loops)
        for loop in loops:
            wait_until_clean(loop.pid)
    return said


def _parted(kind: str) -> tuple[str, str]:
    program, _, variant = kind.partition("+")
    return program, variant or "default"


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_sessions_come_and_go_at_some_kinds_of_programs() -> None:
    said = zoo(SOME, 100, seed=1)
    assert said.keys() <= RIGHT, said
    assert said["done"] > said["killed"] > 0


@pytest.mark.stress
@pytest.mark.timeout(10 * 3600)
def test_thirty_kinds_of_programs() -> None:
    said = zoo(ALL, ROUNDS, seed=ROUNDS, minutes=MINUTES)
    assert said.keys() <= RIGHT, said

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many kinds of programs at once; sessions come and go at any of them, and clients are killed at any moment.

Each program checks what it does all the time, and at the end has to find that all was right. GILK_ZOO_ROUNDS says how many
rounds of attach, insert, remove and detach the long form has.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, wait_for
from tests.programs.build import build

ROUNDS = int(os.environ.get("GILK_ZOO_ROUNDS", "10000"))
SOME = ("hot8", "signals", "threads+O0", "exceptions+Os", "recursion+static", "setjmp+nopie")
ALL = (
    *SOME, "hot8+static-pie", "hot8+stripped", "signals+O3", "signals+ibt", "threads+static", "exceptions+nopie",
    "recursion+O0", "setjmp+O0", "tailcall", "tailcall+Os", "jumptable", "jumptable+O0", "redzone", "redzone+O3", "ucontext", "green",
    "ifunc", "ifunc+static", "avx", "smallstack", "ipara", "unwind", "syscalls", "syscalls+ibt", "work",
)  # fmt: skip
KILLED = 0.2  # of the rounds end by a kill
LATEST = 0.5  # seconds after which a client that is to be killed is, while it does whatever it has come to

#: Says which process it turns to, and when that is over. An error is told by its slug.
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
        print(error.slug, pid, flush=True)
"""


def clean(pid: int) -> bool:
    return not leftovers(pid) and not differences(pid)


@dataclass
class Keeper:
    """Who sets one client after another on the programs; ``said`` is how rounds ended."""

    pids: Sequence[int]
    chance: random.Random
    said: dict[str, int] = field(default_factory=dict)

    def rounds(self, number: int) -> None:
        done = 0
        while done < number:
            done += self._one_client(number - done)

    def _one_client(self, most: int) -> int:
        """Until it is killed, or has made ``most`` rounds; how many those were."""
        words = [sys.executable, "-c", CLIENT, str(self.chance.getrandbits(32)), *map(str, self.pids)]
        done = 0
        with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True) as client:
            with contextlib.ExitStack() as stack:
                stack.callback(client.kill)
                assert client.stdout
                for line in client.stdout:
                    word, pid = line.split()
                    if word == "begun" and self.chance.random() < KILLED:
                        self._kill(client, int(pid))
                        return done + 1
                    if word != "begun":
                        self.said[word] = self.said.get(word, 0) + 1
                        done += 1
                    if done == most:
                        return done
        raise AssertionError("the client has ended by itself")

    def _kill(self, client: subprocess.Popen[str], pid: int) -> None:
        time.sleep(self.chance.uniform(0, LATEST))  # any moment will do
        client.send_signal(signal.SIGKILL)
        client.wait()
        assert wait_for(lambda: all(map(clean, self.pids))), (pid, leftovers(pid), differences(pid))
        self.said["killed"] = self.said.get("killed", 0) + 1


def zoo(kinds: Sequence[str], rounds: int, seed: int) -> dict[str, int]:
    with contextlib.ExitStack() as stack:
        loops = [stack.enter_context(Loop([build(*_parted(kind))])) for kind in kinds]
        keeper = Keeper([loop.pid for loop in loops], random.Random(seed))
        keeper.rounds(rounds)
        assert all(loop.alive() for loop in loops)
        assert wait_for(lambda: all(clean(loop.pid) for loop in loops))
    return keeper.said


def _parted(kind: str) -> tuple[str, str]:
    program, _, variant = kind.partition("+")
    return program, variant or "default"


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_some_kinds_of_programs() -> None:
    said = zoo(SOME, 100, seed=1)
    assert said.keys() <= {"done", "killed"}, said
    assert said["done"] > said["killed"] > 0


@pytest.mark.stress
@pytest.mark.timeout(4 * 3600)
def test_thirty_kinds_of_programs() -> None:
    said = zoo(ALL, ROUNDS, seed=ROUNDS)
    assert said.keys() <= {"done", "killed"}, said

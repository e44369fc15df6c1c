# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process that ends while its threads are stopped: who waits for it learns of that, whoever stopped it lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gilk.errors import TargetError
from gilk.target.world import World
from tests.behaviour.harness import ENVIRONMENT, mortal
from tests.programs.build import build

#: Stops a process, has it killed, lets it go, and looks after those that are late until its input is closed.
STOPPER = """
import os, select, sys
from gilk.target.world import World
world, number = World(int(sys.argv[1])), int(sys.argv[2])
with world.stopped():
    os.kill(world.pid, number)
while not select.select([0], [], [], 0.05)[0]:
    world.release_late()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMAX])
def test_killed_in_its_stop(number: signal.Signals) -> None:
    with mortal([build("hot8")]) as program:
        words = [sys.executable, "-c", STOPPER, str(program.pid), str(int(number))]
        with subprocess.Popen(words, stdin=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as stopper:
            assert program.wait(60) == -number
            stopper.communicate()
        assert stopper.returncode == 0


def test_killed_while_it_is_being_stopped() -> None:
    """Over and over, until it has gone: neither takes it for one that does not stop."""
    for pause in (0.0, 0.001, 0.002, 0.004):
        with mortal([build("hot8")]) as program:
            world, killer = World(program.pid), subprocess.Popen(["sh", "-c", f"sleep {pause}; kill -9 {program.pid}"])
            began = time.monotonic()
            with pytest.raises(TargetError) as raised:
                while True:
                    with world.stopped():
                        pass
            assert raised.value.slug == "no-such-process"
            assert time.monotonic() - began < 5
            assert killer.wait() == 0
            while program.poll() is None:
                world.release_late()
                time.sleep(0.01)

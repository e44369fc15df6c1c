# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is left when client and keeper are both killed, and how it is put right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gilk import api
from gilk.errors import TargetError
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, wait_for
from tests.programs.build import build

CLIENT = """
import sys, time
from gilk import api
target = api.attach(int(sys.argv[1]))
session = target.session()
session.insert("hot:blocks", "count")
print(target.process.keeper.pid, flush=True)
time.sleep(600)
"""


FOLLOWER = """
import sys, time
from gilk import api
from gilk.session.follow.follower import Follower
from gilk.session.follow.scope import Scope
target = api.attach(int(sys.argv[1]))
session = Follower(target.process)
functions, trouble = session.prepare(target.images, Scope())
assert not trouble and session.copy_code()
session.follow(functions)
print(target.process.keeper.pid, flush=True)
time.sleep(600)
"""


def abandon(pid: int, script: str = CLIENT) -> None:
    """Have a session in ``pid`` whose keeper and client are killed, in this order."""
    client = subprocess.Popen(
        [sys.executable, "-c", script, str(pid)], stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
    )
    assert client.stdout
    keeper = int(client.stdout.readline())
    os.kill(keeper, signal.SIGKILL)
    client.kill()
    client.wait()


def test_an_abandoned_process_runs_on_refuses_others_and_can_be_restored() -> None:
    with Loop([build("hot8")]) as loop:
        abandon(loop.pid)
        assert differences(loop.pid)
        with api.attach(loop.pid) as target, pytest.raises(TargetError) as refused:
            target.session()
        assert refused.value.slug == "gs-in-use"
        assert loop.alive()

        restored = api.restore(loop.pid)
        assert restored.bytes["hot8"] > 0
        assert wait_for(lambda: not differences(loop.pid))

        with api.attach(loop.pid) as target, target.session() as session:
            session.insert("hot:entry", "count")
            assert wait_for(lambda: session.counts()["hot8:hot:entry"] > 0)
        assert session.restored
        assert "ok hot8" in loop.finish()


def test_code_that_was_exchanged_for_a_copy_is_put_back() -> None:
    with Loop([build("work")]) as loop:
        before = executable_files(loop.pid)
        abandon(loop.pid, FOLLOWER)
        assert executable_files(loop.pid) != before
        assert loop.alive()
        api.restore(loop.pid)
        assert executable_files(loop.pid) == before
        assert wait_for(lambda: not differences(loop.pid))
        assert "ok work" in loop.finish()


def executable_files(pid: int) -> list[str]:
    """The lines of /proc/PID/maps that say which files' code lies where."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if " r-xp " in line and "/memfd:" not in line and "/" in line]


def test_a_process_that_gilk_never_touched_has_nothing_to_restore() -> None:
    with Loop([build("hot8")]) as loop:
        with pytest.raises(TargetError) as caught:
            api.restore(loop.pid)
        assert caught.value.slug == "nothing-to-restore"
        assert loop.alive()

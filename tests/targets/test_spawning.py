# SPDX-License-Identifier: LGPL-2.1-or-later
"""A keeper that is a fork of its client: what files it has, what it hands on, and that it outlives its client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.harness import Loop, leftovers, wait_for
from tests.programs.build import build

_LAUNCHES = """\
import os, sys
import gilk
from gilk.targets import spawning
private, public = os.open("/etc/hostname", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY)
os.set_inheritable(public, True)
spawning.begin()
(keeper,) = open(f"/proc/self/task/{os.getpid()}/children").read().split()
command = ["sh", "-c", f"readlink /proc/self/fd/{private} /proc/self/fd/{public}"]
with gilk.launch(command) as target:
    print(*sorted(os.readlink(one) for one in os.scandir(f"/proc/{keeper}/fd")), flush=True)
    target.resume()
    while target.wait() is None:
        pass
    print(open(f"/proc/{keeper}/comm").read().strip())
"""
_KILLED = """\
import os, signal, sys
import gilk
from gilk.targets import spawning
spawning.begin()
print(*open(f"/proc/self/task/{os.getpid()}/children").read().split(), flush=True)
with gilk.attach(int(sys.argv[1])) as target, target.session() as session:
    session.insert([function.entry for function in target.functions("*")], gilk.count)
    os.killpg(0, signal.SIGINT) if sys.argv[2] == "int" else os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_are_handed_on_as_an_exec_would_and_not_kept() -> None:
    done = subprocess.run([sys.executable, "-c", _LAUNCHES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    held, *handed, name = done.stdout.splitlines()
    assert "/etc/hostname" not in held and "socket:" in held
    assert handed == ["/etc/passwd"] and name == "gilk-keeper", done.stderr


@pytest.mark.parametrize("how", ["kill", "int"])
def test_a_client_that_is_killed_leaves_the_code_as_it_was(how: str) -> None:
    with Loop([build("rounds")]) as loop:
        before = _code(loop.pid)
        client = subprocess.Popen(
            [sys.executable, "-c", _KILLED, str(loop.pid), how],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        assert client.stdout is not None
        keeper = int(client.stdout.readline())
        assert client.wait() in (-9, -2, 130)
        assert wait_for(lambda: _code(loop.pid) == before and not leftovers(loop.pid))
        assert wait_for(lambda: not _is_keeper(keeper))


def _code(pid: int) -> bytes:
    row = next(line for line in _maps(pid).splitlines() if " r-xp " in line and line.endswith("rounds"))
    low, high = (int(end, 16) for end in row.split()[0].split("-"))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(low)
        return memory.read(high - low)


def _maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def _is_keeper(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "gilk-keeper\n" and os.path.exists(f"/proc/{pid}/exe")
    except OSError:
        return False

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A keeper that is a fork of its client: the files that it has, those that it passes on, and its life after the
client's end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from gilk.targets.apart import HELPERS, KEEPER
from tests.behaviour.harness import Loop, leftovers, wait_for
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build
from tests.seldom import seldom

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

_SEVERAL = """\
import os, signal, sys
import gilk
private, public = os.open("/etc/hostname", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY)
os.set_inheritable(public, True)
held = [gilk.attach(int(sys.argv[1])), gilk.attach(int(sys.argv[2]))]
(server,) = [pid for pid in open(f"/proc/self/task/{os.getpid()}/children").read().split()
             if open(f"/proc/{pid}/comm").read() == "gilk-forks\\n"]
if sys.argv[4] == "server":
    os.kill(int(server), signal.SIGKILL)
held.append(gilk.attach(int(sys.argv[3])))
keepers = [target.process.keeper.pid for target in held]
of_forks = [] if sys.argv[4] == "server" else [server, *keepers[1:]]
files = {os.readlink(one) for pid in of_forks for one in os.scandir(f"/proc/{pid}/fd")}
sessions = [target.session() for target in held]
for target, session in zip(held, sessions):
    session.insert([function.entry for function in target.functions("*")], gilk.count)
print(server, *keepers, flush=True)
print(*sorted(name for name in files if name.startswith("/etc")), flush=True)
if sys.argv[4] == "client":
    os.kill(os.getpid(), signal.SIGKILL)
for session in sessions:
    session.close()
for target in held:
    target.close()
"""


@pytest.mark.parametrize("killed", seldom(["client", "server", ""], 2))
def test_a_client_of_several_processes_has_their_keepers_forked(killed: str) -> None:
    """The keepers end with their client and with the process that forks them, and have none of the client's files."""
    with Loop([build("rounds")]) as one, Loop([build("rounds")]) as two, Loop([build("rounds")]) as three:
        pids = [loop.pid for loop in (one, two, three)]
        before = [_code(pid) for pid in pids]
        words = [sys.executable, "-c", _SEVERAL, *map(str, pids), killed]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == (-9 if killed == "client" else 0), done.stderr
        numbers, files = done.stdout.splitlines()
        assert files == "" and len(set(numbers.split())) == 4
        assert wait_for(lambda: [_code(pid) for pid in pids] == before and not any(map(leftovers, pids)))
        assert wait_for(lambda: not any(_is_helper(int(pid)) for pid in numbers.split()))


def test_open_files_are_passed_on_like_exec_and_not_kept() -> None:
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
    return _is_helper(pid, {KEEPER})


def _is_helper(pid: int, names: Collection[str] = HELPERS) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n") in names and os.path.exists(f"/proc/{pid}/exe")
    except OSError:
        return False

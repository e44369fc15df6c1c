# SPDX-License-Identifier: LGPL-2.1-or-later
"""An interrupted run of the tests leaves no process behind, however it is interrupted, and whatever ran."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.behaviour.harness import wait_for
from tests.seldom import seldom

ROOT = Path(__file__).parent.parent
GUARD = ROOT / "tests" / "guard.py"
_LIMIT = 120  # seconds; the events waited for take one or two
#: A program that leaves every process group, session and line of parents except the reaper's, and says when it is up.
_STRAYS = """
import os, subprocess, sys
for _ in range(3):
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.write(1, b"stray\\n")
            os.execvp("sh", ["sh", "-c", "cat /dev/zero | tail -n 1"])
        os._exit(0)
    os.wait()
"""
_WORK = _STRAYS + "os.write(1, b'all\\n'); sys.stdin.read()"

Interrupt = Callable[["Run"], None]


class Run:
    """Python under guard, in a process group of its own. All processes below it have a mark in their environment."""

    def __init__(self, *words: str) -> None:
        self.mark = f"GILK_TEST_RUN={uuid.uuid4().hex}".encode()
        name, _, value = self.mark.decode().partition("=")
        env = {key: kept for key, kept in os.environ.items() if not key.startswith("PYTEST_")}
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env={**env, name: value}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
        )  # fmt: skip

    def left(self) -> dict[int, str]:
        """The command lines of the processes with the mark, by pid. A process that has ended has no environment any
        more."""
        return {pid: _words(pid) for pid in _everybody() if self.mark in _environment(pid)}

    def named(self, name: str) -> list[int]:
        return [pid for pid in self.left() if _comm(pid) == name]

    def close(self) -> None:
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):  # it may just have ended
                os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=_LIMIT)


def _everybody() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _environment(pid: int) -> list[bytes]:
    return _read(pid, "environ").split(b"\0")


def _words(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def _comm(pid: int) -> str:
    return _read(pid, "comm").decode().rstrip("\n")


def _parent(pid: int) -> int:
    return int(_read(pid, "stat").rpartition(b")")[2].split()[1])


# Which process is interrupted, and how.


def ctrl_c(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGINT)


def terminated(run: Run) -> None:
    run.process.terminate()


def killed(run: Run) -> None:
    run.process.kill()


def group_killed(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGKILL)


def reaper_killed(run: Run) -> None:
    (reaper,) = (pid for pid in run.left() if _parent(pid) == run.process.pid)
    os.kill(reaper, signal.SIGKILL)


def work_killed(run: Run) -> None:
    (reaper,) = (pid for pid in run.left() if _parent(pid) == run.process.pid)
    (work,) = (pid for pid in run.left() if _parent(pid) == reaper and "stdin.read" in _words(pid))
    os.kill(work, signal.SIGKILL)


def done(run: Run) -> None:
    assert run.process.stdin
    run.process.stdin.close()
    run.process.stdin = None


@pytest.fixture
def strays() -> Iterator[Run]:
    run = Run(str(GUARD), "-c", _WORK)
    assert run.process.stdout
    assert {run.process.stdout.readline() for _ in range(4)} == {"stray\n", "all\n"}
    yield run
    run.close()


@pytest.mark.parametrize(
    "interrupt", seldom([ctrl_c, killed, reaper_killed, done, terminated, group_killed, work_killed], 4)
)
def test_daemons_end_with_the_work(strays: Run, interrupt: Interrupt) -> None:
    assert wait_for(lambda: len(strays.named("cat")) == len(strays.named("tail")) == 3, _LIMIT)
    interrupt(strays)
    assert wait_for(lambda: not strays.left(), _LIMIT), strays.left()


def test_negative_control_without_a_guard_daemons_stay() -> None:
    run = Run("-c", _WORK)
    try:
        assert wait_for(lambda: len(run.named("tail")) == 3, _LIMIT)
        run.process.kill()
        run.process.wait(_LIMIT)
        assert len(run.named("tail")) == 3
    finally:
        run.close()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(7)", 7),
        ("pass", 0),
        ("import os; os.kill(os.getpid(), 15)", -15),
        ("import os; os.abort()", -6),
    ],
)
def test_the_exit_status_is_that_of_the_work(code: str, status: int) -> None:
    assert subprocess.run([sys.executable, str(GUARD), "-c", code], timeout=_LIMIT).returncode == status


def test_signals_arrive_at_the_work_once() -> None:
    code = "from signal import *; pthread_sigmask(0, [2, 15]); print('go', flush=True); print(sigwait([2, 15]).name)"
    for number in (signal.SIGINT, signal.SIGTERM):
        run = Run(str(GUARD), "-c", code)
        assert run.process.stdout and run.process.stdout.readline() == "go\n"
        os.kill(run.process.pid, number)
        assert run.process.communicate(timeout=_LIMIT)[0] == f"{number.name}\n"
        assert run.process.returncode == 0


# The tests themselves.


def worker_killed(run: Run) -> None:
    """The processes of a killed worker go before the run is over: another worker takes its place."""
    (worker,) = (pid for pid in run.left() if not _is_guarding(pid) and _is_guarding(_parent(pid)))
    started = [pid for pid in run.left() if _is_below(pid, worker)]
    assert started
    os.kill(worker, signal.SIGKILL)
    assert wait_for(lambda: not set(started) & set(run.left()), _LIMIT)


def _is_guarding(pid: int) -> bool:
    """Whether the process guards a worker of xdist, whose program is given as a word of its command line."""
    words = _words(pid)
    return "/guard.py -u -c " in words and "exec(eval(" in words


def _is_below(pid: int, top: int) -> bool:
    while pid > 1 and pid != top:
        try:
            pid = _parent(pid)
        except IndexError:
            return False
    return pid == top


@pytest.mark.parametrize(
    ("interrupt", "workers", "test", "program"),
    [
        pytest.param(ctrl_c, 1, "tests/cli/test_experiment.py::test_pipe", "sort", marks=pytest.mark.stress),
        (ctrl_c, 0, "tests/behaviour/test_attach.py", "gilk-keeper"),
        pytest.param(terminated, 1, "tests/behaviour/test_attach.py", "gilk-keeper", marks=pytest.mark.stress),
        (worker_killed, 1, "tests/session/broker/test_deaths.py", "gilk-broker"),
        (killed, 0, "tests/behaviour/test_client_killed.py", "gilk-keeper"),
        pytest.param(group_killed, 1, "tests/cli/test_experiment.py::test_pipe", "sort", marks=pytest.mark.stress),
    ],
)
def test_an_interrupted_run_leaves_no_process(
    interrupt: Interrupt, workers: int, test: str, program: str, tmp_path: Path
) -> None:
    words = ["-m", "pytest", "-n", str(workers), "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'run'}", test]
    run = Run(*words)
    try:
        assert wait_for(lambda: run.named(program) or run.process.poll() is not None, _LIMIT)
        assert run.process.poll() is None, run.process.communicate()[0]
        interrupt(run)
        if interrupt is not worker_killed:
            assert wait_for(lambda: not run.left(), _LIMIT), run.left()
            assert run.process.wait(_LIMIT) != 0
    finally:
        run.close()

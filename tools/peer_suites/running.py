# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run a program once, with a deadline and in a session of its own, and kill what it leaves behind."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SET_CHILD_SUBREAPER, _SET_DEATH_SIGNAL = 36, 1  # linux/prctl.h
_MOST_OUTPUT = 32 << 20  # bytes of each stream
_LINGER = 10.0  # seconds that processes left behind may take to end by themselves
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ended:
    """The end of a run. ``status`` is as in subprocess, negative for a signal, or None if the run was killed at its
    deadline.

    ``left`` has the command lines of processes that remained after the run and had to be killed.
    """

    status: int | None
    out: bytes
    err: bytes
    seconds: float
    left: tuple[str, ...] = ()


def adopt_orphans() -> None:
    """Make this process the subreaper, so that processes which a program leaves behind become its children."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str | Path], cwd: Path, env: Mapping[str, str], deadline: float, linger: float = _LINGER
) -> Ended:
    """Run a command to its end, or for ``deadline`` seconds. The output goes to files, so that a process left behind
    does not keep a pipe open."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True, preexec_fn=_limits,  # noqa: PLW1509 (there are no threads)
        )  # fmt: skip
        try:
            status = _wait(process, deadline)
            left = kill_what_is_left(0.0 if status is None else linger)
        finally:
            kill_what_is_left(0.0)
        return Ended(status, _content(out.fileno()), _content(err.fileno()), time.monotonic() - begun, left)


def _limits() -> None:
    _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(deadline)
    except subprocess.TimeoutExpired:
        return None


def _content(file: int) -> bytes:
    return os.pread(file, _MOST_OUTPUT, 0)


def kill_what_is_left(linger: float) -> tuple[str, ...]:
    """Wait ``linger`` seconds at most for the descendants of this process, and kill the rest. Returns the command
    lines of those killed."""
    limit = time.monotonic() + linger
    while (alive := _children()) and time.monotonic() < limit:
        _reap()
        time.sleep(0.01)
    found = tuple(_command_line(pid) for pid in alive)
    while alive:
        for pid in alive:
            _kill(pid)
        _reap()
        alive = _children()
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)  # after this, its children are children of this process
    except (ProcessLookupError, ChildProcessError):
        pass


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _children() -> list[int]:
    """The living children of this process; dead ones are reaped first."""
    _reap()
    own = os.getpid()
    return [int(word) for word in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""

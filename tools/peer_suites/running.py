# SPDX-License-Identifier: LGPL-2.1-or-later
"""One run of a program: with a deadline, in a session of its own, and nothing of it left when it is over."""

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
_LINGER = 10.0  # seconds in which what a run has left behind may end by itself
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ended:
    """``status`` as subprocess has it: negative for a signal; None: it was killed at the deadline.

    ``left``: command lines of processes that were there after it, and had to be killed.
    """

    status: int | None
    out: bytes
    err: bytes
    seconds: float
    left: tuple[str, ...] = ()


def adopt_orphans() -> None:
    """Whatever a program leaves behind becomes a child of this process, and can be found."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str | Path], cwd: Path, env: Mapping[str, str], deadline: float, linger: float = _LINGER
) -> Ended:
    """To its end, or for ``deadline`` seconds. Its output goes to files: who is left behind holds no pipe of ours."""
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
    """All descendants of this process, after ``linger`` seconds at most; the command lines of those still alive."""
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
        os.waitpid(pid, 0)  # its children are ours then
    except (ProcessLookupError, ChildProcessError):
        pass


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _children() -> list[int]:
    """The children of this process, dead ones that nobody waited for not among them."""
    _reap()
    own = os.getpid()
    return [int(word) for word in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs of gilk that a window starts, by name. It starts no others.

Each is given two pipes, and the window's grants in memory that nobody can change any more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from gilk.errors import TargetError, UsageError
from gilk.values import dataclass

#: Modules of gilk.web that speak with the server by frames (frames.py).
CHILDREN: Final = (
    "c_worker", "d_host", "d_worker", "experiment_host", "file_worker", "host", "machine_host", "reach_worker",
    "trace_host", "worker",
)  # fmt: skip
#: Programs that print their result to the pipe and end.
PRINTING: Final = {"doctor": ("gilk", "doctor", "--json"), "costing": ("gilk.web.costing",)}


@dataclass(frozen=True, slots=True)
class SpawnedProgram:
    """A program that was started. ``writing``: the end of the pipe to it; ``reading``: that of the pipe from it."""

    process: subprocess.Popen[bytes]
    writing: int
    reading: int


def spawned(name: str, grants: int) -> SpawnedProgram:
    """Start a program: in a session of its own, since only the server handles Ctrl-C, and with no directory of the
    user's on its path. ``grants``: a descriptor (grants.py). Raises UsageError `not-granted`, TargetError
    `cannot-launch`.
    """
    if name not in CHILDREN and name not in PRINTING:
        raise UsageError("not-granted", f"a window starts no program {name[:40]!r}")
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    try:
        process = _printing(name, theirs_out) if name in PRINTING else _child(name, theirs_in, theirs_out, grants)
    except OSError as error:
        os.close(ours_in)
        os.close(ours_out)
        raise TargetError("cannot-launch", f"a process of the window's cannot be started: {error.strerror}") from None
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    return SpawnedProgram(process, ours_out, ours_in)


def _child(name: str, reading: int, writing: int, grants: int) -> subprocess.Popen[bytes]:
    words = (sys.executable, "-P", "-m", f"gilk.web.{name}", str(reading), str(writing), str(grants))
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, pass_fds=(reading, writing, grants), start_new_session=True
    )  # fmt: skip


def _printing(name: str, writing: int) -> subprocess.Popen[bytes]:
    none = subprocess.DEVNULL
    words = (sys.executable, "-P", "-m", *PRINTING[name])
    return subprocess.Popen(words, stdin=none, stdout=writing, stderr=none, start_new_session=True)

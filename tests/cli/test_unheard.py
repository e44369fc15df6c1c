# SPDX-License-Identifier: LGPL-2.1-or-later
"""A command that waits in the kernel for something else than a signal is ended by SIGINT and SIGTERM all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.harness import state, wait_for
from tests.seldom import seldom

#: Waits in a system call that only a fatal signal ends, as a read of a file system does that does not answer: for a
#: child made with CLONE_VFORK, until standard input is closed.
SCRIPT = """
import ctypes, os, signal, sys
from gilk.cli import unheard
from tests.seldom import seldom
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
if sys.argv[1] == "watched":
    unheard.watch()
if not ctypes.CDLL(None).syscall(56, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0):
    os.write(1, b".")
    os.read(0, 1)
    os._exit(0)
"""


def waiting(how: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", SCRIPT, how]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdout and process.stdout.read(1) == b"."
    assert wait_for(lambda: state(process.pid) == "D")
    return process


@pytest.mark.parametrize("number", seldom((signal.SIGTERM, signal.SIGINT), 1))
def test_a_signal_ends_a_command_that_waits_for_a_file_system(number: signal.Signals) -> None:
    with waiting("watched") as process:
        process.send_signal(number)
        assert process.stderr and b"does not answer" in process.stderr.readline()
        assert wait_for(lambda: process.poll() is not None)
        assert process.returncode == 128 + number


def test_negative_control_nothing_else_ends_it() -> None:
    with waiting("unwatched") as process:
        process.send_signal(signal.SIGTERM)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "ShdPnd:\t0000000000004000" in status, status
        assert state(process.pid) == "D"
        assert process.stdin
        os.close(process.stdin.fileno())
        process.stdin = None
        assert process.wait() == 1

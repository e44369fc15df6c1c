# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ctrl-C ends a command also where Python has to ignore an exception."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.behaviour.waiting import PATIENCE

#: SIGINT comes while an object is destroyed, or while a weak reference calls back; then the program waits.
IGNORED = """
import os, signal, sys, weakref
from gilk.cli.ignored import hear_ignored_interrupts

class Object:
    pass

class Destroyed:
    def __del__(self):
        interrupt()

def interrupt(_=None):
    os.kill(os.getpid(), signal.SIGINT)
    print("not reached")

hear_ignored_interrupts()
try:
    if sys.argv[1] == "destroyed":
        Destroyed()
    else:
        kept = Object()
        called = weakref.ref(kept, interrupt)
        del kept
    print("waits", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("what", ["destroyed", "called back"])
def test_an_interrupt_that_python_ignores_comes_again(what: str) -> None:
    words = [sys.executable, "-c", IGNORED, what]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "interrupted", "")
    assert "not reached" not in done.stdout


def test_other_ignored_exceptions_are_told_of() -> None:
    text = IGNORED.replace("os.kill(os.getpid(), signal.SIGINT)", "1 / 0").replace("signal.pause()", "sys.exit(3)")
    done = subprocess.run([sys.executable, "-c", text, "destroyed"], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (3, "waits\n") and "ZeroDivisionError" in done.stderr

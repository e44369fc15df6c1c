# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ends a command that does not end by SIGINT, SIGTERM or SIGHUP, as it waits for something that does not answer.

A system call that waits for a file system, a network's or a target's own (FUSE), goes on waiting when a signal comes,
unless the signal kills the process: so no handler runs. A thread looks whether that is so. The keeper of a target may
hang in such a call, too, or be stopped: a user who has sent two signals does not wait for it either. When the thread
ends the process, keepers take out what was put into targets, as after any other end of their client.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from gilk.cli.progress import say
from gilk.own_threads import watcher

_LOOK: Final = 1.0  # seconds between two looks
_LOOKS: Final = 5  # looks in which a signal has been waiting
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Asked:
    number = 0  # the signal that the user has sent last, once that is the second


def hurry(number: int) -> None:
    """Have the process end within seconds by that signal, whatever it waits for."""
    _Asked.number = number


def watch() -> None:
    """Watch the process's first thread from now on, unless a limit on addresses leaves little room for a thread."""
    watcher(_watch)


def _watch() -> None:
    unheard_for, asked_for, pause = 0, 0, threading.Event()
    while not pause.wait(_LOOK):
        number = unheard()
        unheard_for = unheard_for + 1 if number else 0
        asked_for = asked_for + 1 if _Asked.number else 0
        if unheard_for == _LOOKS:
            say("a file system does not answer, and gilk does not wait for it any longer")
            os._exit(128 + number)
        if asked_for == _LOOKS:
            say("gilk does not wait for the process that holds the target: that one takes everything out, and if it "
                "cannot, gilk restore does")  # fmt: skip
            os._exit(128 + _Asked.number)


def unheard() -> int:
    """The number of a signal that is to end this process and waits for its first thread, which waits in the kernel for
    something else; 0 if there is none."""
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:
            lines = dict(line.split(b":", 1) for line in file.read().split(b"\n")[2:] if b":" in line)
        pending, shared, blocked = (int(lines[name], 16) for name in (b"SigPnd", b"ShdPnd", b"SigBlk"))
    except OSError:
        return 0
    if not lines[b"State"].strip().startswith(b"D"):
        return 0
    there = (pending | shared) & ~blocked
    return next((int(number) for number in _ENDING if there >> number - 1 & 1), 0)

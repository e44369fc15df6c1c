# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process of ours that goes on by itself: what the terminal sends to the command that began it is not for it."""

from __future__ import annotations

import signal
from contextlib import suppress
from os import setpgid
from pathlib import Path

_NOT_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU, signal.SIGPIPE)
#: What the process of a keeper is called.
KEEPER = "gilk-keeper"


def stand_apart(name: str) -> None:
    """In a process group of its own, called so, and deaf to those signals."""
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        setpgid(0, 0)
        Path("/proc/self/comm").write_text(name)

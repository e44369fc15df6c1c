# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a process, or a thread, is there."""

from __future__ import annotations


def is_alive(tid: int) -> bool:
    """It has not ended, nor become a zombie."""
    try:
        with open(f"/proc/{tid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False

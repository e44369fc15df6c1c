# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads /proc/PID/status of a process or thread (proc_pid_status(5))."""

from __future__ import annotations

from contextlib import suppress


def status_of(tid: int | str) -> dict[bytes, bytes]:
    """The values of the lines by their names, without the colon and the white space around the value. ``tid`` may be
    ``self``.

    Raises OSError when there is no such thread.
    """
    with open(f"/proc/{tid}/status", "rb", buffering=0) as file:
        return parsed(file.read())


def ancestors(pid: int | str) -> tuple[int, ...]:
    """The pids of a process, of its parent, and so on to the first process of all; empty if it has gone. ``pid`` may be
    ``self``. If a process ends meanwhile, the pids that were known until then are returned."""
    found: list[int] = []
    number: int | str = pid
    with suppress(OSError):
        while number and number not in found:  # a pid may be reused for another process
            status = status_of(number)
            found.append(int(status[b"Pid"]))
            number = int(status[b"PPid"])
    return tuple(found)


def parsed(text: bytes) -> dict[bytes, bytes]:
    """The values by their names, as status_of() has them, of a text that was read elsewhere."""
    pairs = (line.partition(b":") for line in text.split(b"\n"))  # a name may contain other line ends
    return {name: value.strip() for name, colon, value in pairs if colon}

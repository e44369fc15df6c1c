# SPDX-License-Identifier: LGPL-2.1-or-later
"""/proc/PID/status of a process or thread (proc_pid_status(5))."""

from __future__ import annotations


def status_of(tid: int | str) -> dict[bytes, bytes]:
    """The lines by their names, without the colon and the white space around the value. ``tid`` may be ``self``.

    Raises OSError when there is no such thread.
    """
    with open(f"/proc/{tid}/status", "rb", buffering=0) as file:
        return parsed(file.read())


def parsed(text: bytes) -> dict[bytes, bytes]:
    """The same of a text that was read elsewhere."""
    pairs = (line.partition(b":") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}

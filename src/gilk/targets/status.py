# SPDX-License-Identifier: LGPL-2.1-or-later
"""/proc/PID/status of a process or thread (proc_pid_status(5))."""

from __future__ import annotations

from contextlib import suppress


def status_of(tid: int | str) -> dict[bytes, bytes]:
    """The lines by their names, without the colon and the white space around the value. ``tid`` may be ``self``.

    Raises OSError when there is no such thread.
    """
    with open(f"/proc/{tid}/status", "rb", buffering=0) as file:
        return parsed(file.read())


def ancestors(pid: int | str) -> tuple[int, ...]:
    """The numbers of a process, of its parent, and so on to the first of all; of one that has gone, none. ``pid`` may
    be ``self``. A process that ends meanwhile leaves the numbers that were known until then."""
    found: list[int] = []
    number: int | str = pid
    with suppress(OSError):
        while number and number not in found:  # a number may come again, of another process
            status = status_of(number)
            found.append(int(status[b"Pid"]))
            number = int(status[b"PPid"])
    return tuple(found)


def parsed(text: bytes) -> dict[bytes, bytes]:
    """The same of a text that was read elsewhere."""
    pairs = (line.partition(b":") for line in text.split(b"\n"))  # a name may have other ends of lines in it
    return {name: value.strip() for name, colon, value in pairs if colon}

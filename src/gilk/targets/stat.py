# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads /proc/PID/stat of a process or thread (proc_pid_stat(5))."""

from __future__ import annotations

from typing import Final

#: The indices of fields, counted from the one behind the name.
STATE, PARENT, FLAGS, FAULTS, USER_TIME, SYSTEM_TIME, THREADS, START_TIME = 0, 1, 6, 9, 11, 12, 17, 19
VIRTUAL_SIZE, CODE_START, STACK_START, PROCESSOR, HEAP_START = 20, 23, 25, 36, 44
_NAME_ENDS: Final = b")"  # the last one in the line: a name may contain parentheses, too


def stat_of(pid: int, tid: int = 0) -> list[bytes]:
    """The fields behind the name, of the process or of one of its threads. Raises OSError."""
    place = f"/proc/{pid}/task/{tid}/stat" if tid else f"/proc/{pid}/stat"
    with open(place, "rb", buffering=0) as file:
        return fields_of(file.read())


def fields_of(line: bytes) -> list[bytes]:
    """The fields behind the name, from the content of such a file."""
    return line.rpartition(_NAME_ENDS)[2].split()

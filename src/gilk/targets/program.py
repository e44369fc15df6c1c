# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program that a process executes, its name and its words, as /proc has them (proc(5)).

All but two raise OSError where there is no such process, or where we may not look: FileNotFoundError of the program
of a process that has let its memory go, and of the kernel's own threads.
"""

from __future__ import annotations

import os

_DELETED = " (deleted)"


def path_there(path: str) -> str:
    """A path as the kernel tells it, without the remark that the file has been removed (proc_pid_maps(5))."""
    return path.removesuffix(_DELETED)


def program_file(pid: int) -> str:
    """The path of the file that it executes, in its own mount namespace; of a file that has been removed, where that
    was."""
    return path_there(os.readlink(f"/proc/{pid}/exe"))


def program_name(pid: int) -> str:
    """The file name of its program; '' for the kernel's threads, and where we may not look."""
    try:
        return os.path.basename(program_file(pid))
    except OSError:
        return ""


def file_of_name(tid: int) -> str:
    """The path of the file which has the name of a thread, and a newline behind it; on its machine."""
    return f"/proc/{tid}/comm"


def name_of(tid: int) -> str:
    """The name that the kernel has for a thread, of 15 bytes at the most."""
    with open(file_of_name(tid), "rb", buffering=0) as file:
        return file.read().rstrip(b"\n").decode(errors="replace")


def words_of(pid: int) -> list[bytes]:
    """Its arguments as they are in its memory now, the name of the program first."""
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        return file.readall().split(b"\0")[:-1]


def mounts_of(pid: int) -> list[bytes]:
    """The lines of /proc/PID/mountinfo, one for each file system that it sees."""
    with open(f"/proc/{pid}/mountinfo", "rb", buffering=0) as file:
        return file.readall().split(b"\n")[:-1]


def has_let_go(pid: int) -> bool:
    """Whether it has let its memory go, and its program with it: it has ended, or is about to."""
    try:
        program_file(pid)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False

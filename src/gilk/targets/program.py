# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program that a process executes, its name and its arguments, as /proc has them (proc(5)).

Except where noted, functions raise OSError if there is no such process, or if we may not look: FileNotFoundError for
the program of a process that has released its memory, and of the kernel's own threads.
"""

from __future__ import annotations

import os

from gilk.targets.alive import proc_link

_DELETED = " (deleted)"


def path_there(path: str) -> str:
    """A path as the kernel gives it, without the remark that the file has been removed (proc_pid_maps(5))."""
    return path.removesuffix(_DELETED)


def program_file(pid: int) -> str:
    """The path of the file that a process executes, in its own mount namespace; if the file has been removed, the path
    that it had."""
    return path_there(proc_link(pid, "exe"))


def program_name(pid: int) -> str:
    """The file name of a process's program; '' for the kernel's threads, and if we may not look. Raises nothing."""
    try:
        return os.path.basename(program_file(pid))
    except OSError:
        return ""


def file_of_name(tid: int) -> str:
    """The path of the file with the name of a thread and a newline, on the thread's machine. Raises nothing."""
    return f"/proc/{tid}/comm"


def name_of(tid: int) -> str:
    """The name that the kernel has for a thread, of at most 15 bytes."""
    with open(file_of_name(tid), "rb", buffering=0) as file:
        return file.read().rstrip(b"\n").decode(errors="replace")


def words_of(pid: int) -> list[bytes]:
    """The arguments of a process as they are in its memory now, the name of the program first."""
    with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        return file.readall().split(b"\0")[:-1]


def mounts_of(pid: int) -> list[bytes]:
    """The lines of /proc/PID/mountinfo, one for each mount that the process sees."""
    with open(f"/proc/{pid}/mountinfo", "rb", buffering=0) as file:
        return file.readall().split(b"\n")[:-1]


def has_let_go(pid: int) -> bool:
    """Whether a process has released its memory, and its program with it: it has ended, or is about to. Raises
    nothing."""
    try:
        program_file(pid)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The facts in /proc/PID/status about a process and its ancestors."""

from __future__ import annotations

import os
import subprocess

from gilk.targets.status import ancestors


def test_ancestors_begin_with_the_process_and_end_with_the_first_of_all() -> None:
    ours = ancestors("self")
    assert ours[:2] == (os.getpid(), os.getppid())
    assert ours == ancestors(os.getpid())
    with open(f"/proc/{ours[-1]}/stat", encoding="ascii", errors="replace") as file:
        assert file.read().rpartition(")")[2].split()[1] == "0"  # the parent, proc_pid_stat(5)


def test_an_ended_process_has_no_ancestors() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert ancestors(gone.pid) == ()

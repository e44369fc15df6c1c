# SPDX-License-Identifier: LGPL-2.1-or-later
"""The children of a process, as the kernel lists them (proc_pid_children(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator


def children(pid: int) -> Iterator[int]:
    """The processes that any thread of a process has started; none where the kernel does not list them, or once the
    process has ended."""
    try:
        for name in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{name}/children", "rb", buffering=0) as file:
                yield from map(int, file.read().split())
    except OSError:
        return

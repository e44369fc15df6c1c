# SPDX-License-Identifier: LGPL-2.1-or-later
"""A keeper in the tests' own process, without a server around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.remote import Remote, remote


@contextmanager
def kept(pid: int) -> Iterator[Keeper]:
    """Hold process ``pid``, with gilk's memory mapped in it, and leave it at the end."""
    keeper = Keeper(LinuxProcess(pid))
    keeper.mapper.set_up(f"test-{pid}", 1 << 16, 1 << 16)  # who else has memory of that name counts as a forked child
    try:
        yield keeper
    finally:
        keeper.close()
        keeper.memory.close()


@contextmanager
def borrowed(keeper: Keeper) -> Iterator[Remote]:
    """Stop the process, and yield a function that makes system calls in one of its threads."""
    with keeper.process.threads.stopped(), remote(keeper.process.threads, keeper.memory) as call:
        yield call

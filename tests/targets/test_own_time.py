# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processor time that gilk uses itself."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.targets.alive import cpu_time
from gilk.targets.apart import KEEPER
from gilk.targets.children import children
from gilk.targets.own_time import own_time, works
from gilk.targets.status import status_of
from tests.behaviour.harness import wait_for

NAME = 15  # PR_SET_NAME
USED = 0.3  # seconds


@contextmanager
def grandchild(name: str) -> Iterator[int]:
    """Have a child start a process of this name, which works all the time."""
    child = os.fork()
    if not child:
        if not os.fork():
            ctypes.CDLL(None).prctl(NAME, name.encode())
            while True:
                pass
        os.waitpid(-1, 0)
        os._exit(0)
    try:
        assert wait_for(lambda: list(children(child)))
        yield next(children(child))
    finally:
        for pid in (*children(child), child):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(("name", "counts"), [(KEEPER, True), ("workload", False)])
def test_time_of_helpers_counts_and_that_of_programs_does_not(name: str, counts: bool) -> None:
    """This is looked at in a process that has no other children."""
    looks = os.fork()
    if not looks:
        is_right = False
        try:
            with grandchild(name) as pid:
                worked = wait_for(lambda: cpu_time(pid) > USED)
                is_right = worked and (own_time() - cpu_time(os.getpid()) > USED) is counts
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(looks, 0)[1]) == 0


def test_a_process_that_has_ended_has_no_children() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert list(children(child)) == []


def test_a_process_works_if_one_that_it_has_started_does() -> None:
    with grandchild("worker") as pid:
        worked = works(int(status_of(pid)[b"PPid"]))
        assert wait_for(worked)
        os.kill(pid, signal.SIGSTOP)
        assert wait_for(lambda: not worked())

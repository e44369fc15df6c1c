# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads of a followed process are stopped just when they have made other threads."""

from __future__ import annotations

import os

from gilk.targets import ptrace
from gilk.targets.tree import ProcessTree
from gilk.targets.world import PtracedThreads
from tests.behaviour.harness import Loop, wait_for
from tests.programs.build import build

TIMES = 20


def stopped_maker(tree: ProcessTree) -> int:
    """The number of a thread that the kernel holds because it has made another, and that nobody has noticed yet; 0
    if there is none."""
    found = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOWAIT | os.WNOHANG | ptrace.WALL)
    if found is None:
        return 0
    if found.si_status >> 8 == ptrace.EVENT_CLONE:
        return found.si_pid
    tree.pump()
    return 0


def answer_of_a_maker(tree: ProcessTree, world: PtracedThreads) -> tuple[int, int]:
    """The result of the system call of a thread that is stopped just after it has made another, and the number of
    the new thread."""
    makers: list[int] = []
    assert wait_for(lambda: (maker := stopped_maker(tree)) and not makers.append(maker))
    made = ptrace.event_message(makers[0])
    with world.stopped() as threads:
        return threads[makers[0]].registers.rax, made


def test_a_stopped_thread_keeps_the_result_of_its_clone_call() -> None:
    """If the thread's registers were saved within that call, and restored after it, the call would seem to fail with
    ENOSYS."""
    with Loop([build("threads")]) as loop:
        tree = ProcessTree()
        world = PtracedThreads(loop.pid, tree)
        tree.follow(loop.pid)
        with world.stopped():
            world.stay()
        answers = [answer_of_a_maker(tree, world) for _ in range(TIMES)]
        tree.let_go()
    assert [had for had, _ in answers] == [made for _, made in answers]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads of a followed process are stopped just when they have made others."""

from __future__ import annotations

import os

from gilk.targets import ptrace
from gilk.targets.tree import ProcessTree
from gilk.targets.world import PtracedThreads
from tests.behaviour.harness import Loop, wait_for
from tests.programs.build import build

TIMES = 20


def stopped_maker(tree: ProcessTree) -> int:
    """A thread that the kernel holds because it has made another, and of which nobody has taken notice yet."""
    found = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOWAIT | os.WNOHANG | ptrace.WALL)
    if found is None:
        return 0
    if found.si_status >> 8 == ptrace.EVENT_CLONE:
        return found.si_pid
    tree.pump()
    return 0


def answer_of_a_maker(tree: ProcessTree, world: PtracedThreads) -> tuple[int, int]:
    """The answer of its system call as a thread has it that was stopped just then, and the thread that it made."""
    makers: list[int] = []
    assert wait_for(lambda: (maker := stopped_maker(tree)) and not makers.append(maker))
    made = ptrace.event_message(makers[0])
    with world.stopped() as threads:
        return threads[makers[0]].registers.rax, made


def test_a_thread_has_the_answer_of_the_system_call_by_which_it_made_another() -> None:
    """Registers that were taken within that call, and given back after it, would tell it that there is no such call."""
    with Loop([build("threads")]) as loop:
        tree = ProcessTree()
        world = PtracedThreads(loop.pid, tree)
        tree.follow(loop.pid)
        with world.stopped():
            world.stay()
        answers = [answer_of_a_maker(tree, world) for _ in range(TIMES)]
        tree.let_go()
    assert [had for had, _ in answers] == [made for _, made in answers]

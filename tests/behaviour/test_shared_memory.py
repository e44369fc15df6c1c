# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that share their memory without being threads of one process (clone(2) with CLONE_VM)."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from gilk.targets import sharing
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from tests.behaviour.harness import Loop, differences, gs_bases, leftovers, wait_for
from tests.programs.build import build
from tests.seldom import seldom

CALLS = 1000  # calls of work() by each process that is told to


class Siblings:
    def __init__(self, end: Path) -> None:
        self.end = end
        self.process = subprocess.Popen(
            [build("siblings"), end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, letter: str) -> int:
        """Send a letter to the program. Returns the process number of the last sibling."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(letter.encode())
        said, number = self.process.stdout.readline().decode().split()
        assert said == letter
        return int(number)

    def finish(self) -> None:
        """End all processes, which have to end as they should."""
        out, _ = self.process.communicate(timeout=250)
        assert (out, self.process.returncode) == (b"ok\n", 0)


@pytest.fixture
def siblings(tmp_path: Path) -> Iterator[Siblings]:
    made = Siblings(tmp_path / "end")
    yield made
    made.end.touch()
    made.process.kill()
    made.process.communicate()


def test_processes_that_share_memory_are_stopped_and_counted_too(siblings: Siblings) -> None:
    siblings.do("s")
    siblings.do("s")
    for turn in range(3):
        with gilk.attach(siblings.pid) as target, target.session() as session:
            session.insert("siblings:work:entry", gilk.count)
            probes = session.insert("siblings:work:entry", "stamp")
            siblings.do("w")
            assert session.counts()["siblings:work:entry"] == 3 * CALLS, turn
            assert len(session.poll()) == 3 * CALLS
            session.remove(probes)
            siblings.do("w")
            assert session.counts()["siblings:work:entry"] == 6 * CALLS, turn
        assert (session.restored, session.notes) == (True, [])
        assert (differences(siblings.pid), leftovers(siblings.pid)) == ([], [])
        siblings.do("w")
    siblings.finish()


def test_a_process_that_begins_to_share_memory_gets_a_buffer_of_its_own(siblings: Siblings) -> None:
    with gilk.attach(siblings.pid) as target, target.session() as session:
        session.insert("siblings:work:entry", gilk.count)
        siblings.do("w")
        sibling = siblings.do("s")
        (mine,) = gs_bases(siblings.pid)
        assert wait_for(lambda: gs_bases(sibling) != {mine})
        before = session.counts()["siblings:work:entry"]
        for _ in range(20):
            siblings.do("w")
        assert session.counts()["siblings:work:entry"] - before == 2 * 20 * CALLS
    assert session.restored
    assert [f"process {sibling} was made to share memory" in note for note in session.notes] == [True]
    assert (differences(siblings.pid), leftovers(siblings.pid)) == ([], [])
    siblings.do("w")
    siblings.finish()


@pytest.mark.parametrize("probes", ["work:entry", "*:blocks"])
def test_a_process_that_shares_memory_is_restored_when_the_first_ends(siblings: Siblings, probes: str) -> None:
    with gilk.attach(siblings.pid) as target, target.session() as session:
        session.insert(f"siblings:{probes}", gilk.count)
        sibling = siblings.do("s")
        siblings.do("w")
        assert siblings.process.stdin
        siblings.process.stdin.write(b"x")
        assert siblings.process.wait(60) == 0
        assert differences(sibling)
    assert (differences(sibling), leftovers(sibling)) == ([], [])


def test_a_process_is_refused_if_the_kernel_cannot_tell_who_shares_its_memory(
    siblings: Siblings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system call that does not exist stands for a kernel without kcmp(2)."""
    siblings.do("s")
    monkeypatch.setattr(sharing, "_KCMP", 100_000)
    keeper = Keeper(LinuxProcess(siblings.pid))
    with contextlib.closing(keeper.memory):
        with pytest.raises(TargetError) as refused:
            keeper.mapper.set_up("a-test", 1 << 20, 1 << 20)
        assert refused.value.slug == "shared-memory"
        keeper.close()
    assert leftovers(siblings.pid) == []
    siblings.do("w")
    siblings.finish()


def test_a_process_with_one_user_of_its_memory_is_not_refused_without_kcmp(
    siblings: Siblings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "_KCMP", 100_000)
    keeper = Keeper(LinuxProcess(siblings.pid))
    with contextlib.closing(keeper.memory):
        keeper.mapper.set_up("a-test", 1 << 20, 1 << 20)
        keeper.close()
    assert leftovers(siblings.pid) == []
    siblings.finish()


@pytest.mark.parametrize("name", seldom(["vfork", "spawn"], 1))
def test_vfork_children_go_on_while_they_borrow_their_parents_memory(name: str) -> None:
    """Their parent waits for them, so nobody may keep them from going on; meanwhile they use its buffer."""
    with Loop([build(name)]) as loop:
        for _ in range(4):
            with gilk.attach(loop.pid) as target, target.session() as session:
                session.insert(f"{name}:*:blocks", gilk.count)
                assert wait_for(lambda: sum(session.counts().values()) > 1000)
            assert (session.restored, session.notes) == (True, [])
            assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def test_processes_that_have_ended_share_no_memory() -> None:
    """The kernel says of two processes without memory that they have the same."""
    with subprocess.Popen(["true"]) as one, subprocess.Popen(["true"]) as other:
        for process in (one, other):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert sharing._compare(one.pid, other.pid) == 0
        assert not sharing.is_same_memory(one.pid, other.pid)
    assert sharing.is_same_memory(os.getpid(), os.getpid())

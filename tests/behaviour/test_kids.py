# SPDX-License-Identifier: LGPL-2.1-or-later
"""Children of the target, one of which cannot be stopped: the others are restored, and that one is named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

import gilk
from tests.behaviour.harness import ToldByLetters, differences, leftovers
from tests.programs.build import build


class Kids(ToldByLetters):
    def __init__(self) -> None:
        self.process = subprocess.Popen([build("kids")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def do(self, letter: str) -> list[int]:
        assert self.process.stdout
        self.send(letter)
        return [int(word) for word in self.process.stdout.readline().split()]


@pytest.fixture
def kids() -> Iterator[Kids]:
    made = Kids()
    yield made
    made.process.kill()
    made.process.communicate()


def test_children_are_restored_though_one_in_vfork_cannot_be_stopped(kids: Kids) -> None:
    with gilk.attach(kids.pid) as target:
        with target.session() as session:
            session.insert("kids:work:entry", gilk.count)
            waits, *others = kids.do("f")
        assert session.restored is False
        assert [note.startswith(f"process {waits}, a child, keeps its probes") for note in session.notes] == [True]
        for pid in (kids.pid, *others):
            assert (differences(pid), leftovers(pid)) == ([], []), pid
        assert differences(waits)
        kids.do("h")  # it goes on although it was asked to stop, and is not left standing
    gilk.restore(waits)
    assert differences(waits) == []
    out, _ = kids.process.communicate(timeout=250)
    assert (out, kids.process.returncode) == (b"ok\n", 0)

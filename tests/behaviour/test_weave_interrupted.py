# SPDX-License-Identifier: LGPL-2.1-or-later
"""Ctrl-C while a weaving waits for its keeper: the error is that of Ctrl-C, not one of the requests that fail
afterwards."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path

import pytest

from gilk.api import aspects
from gilk.targets.process import KeeperClient
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.programs.build import build
from tests.seldom import seldom

ASPECT = "table hits key(int) sum;\ncall(int one_round(..)) then after { add(hits, 1, 1); };\n"


class _Interrupted:
    """Interrupts the wait for the answer to the first request of this name; ``happened`` says whether it did."""

    def __init__(self, name: str, patched: pytest.MonkeyPatch) -> None:
        self._name, self._await, self.happened = name, KeeperClient._await, False
        patched.setattr(KeeperClient, "_await", partialmethod(_Interrupted._passed, self))

    @staticmethod
    def _passed(client: KeeperClient, interrupted: _Interrupted, name: str) -> None:
        interrupted._wait(client, name)

    def _wait(self, client: KeeperClient, name: str) -> None:
        if name == self._name and not self.happened:
            self.happened = True
            raise KeyboardInterrupt
        self._await(client, name)


def _weave(file: Path, pid: int) -> None:
    choices = aspects.choices((), (pid,))
    with aspects.held(file, choices, ()) as (weaving, *_):
        weaving.weave()
        weaving.unweave()


@pytest.mark.parametrize("name", seldom(["set_up", "change", "map_advice", "stage", "close"], 2))
def test_ctrl_c_during_a_request_is_reported_as_ctrl_c(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hits.aspect"
    file.write_text(ASPECT)
    with Loop([build("tailcall")]) as loop:
        interrupted = _Interrupted(name, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            _weave(file, loop.pid)
        assert interrupted.happened
        assert wait_for(lambda: not leftovers(loop.pid) and not differences(loop.pid))

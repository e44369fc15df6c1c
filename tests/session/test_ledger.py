# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a ledger says is in force, after changes and after one that failed."""

from __future__ import annotations

import pytest

from gilk import api
from gilk.errors import TargetError
from gilk.session.session import InForce, Session
from tests.behaviour.harness import Loop
from tests.programs.build import build


def names(in_force: InForce) -> list[str]:
    """Of the program's functions; libc's have what signals need."""
    every = (batch.names[unit] for batch, units in in_force for unit in units or range(len(batch.names)))
    return sorted(name for name in every if name.startswith("hot"))


def test_what_goes_and_what_never_came_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loop([build("hot8")]) as loop, api.attach(loop.pid) as target, target.session() as session:
        assert isinstance(session, Session)
        ledger = session._ledger
        first = session.insert("hot:entry", api.count)
        session.insert("hot_asm:entry", api.count)
        assert names(ledger.in_force) == ["hot", "hot_asm"]
        session.remove(first)
        assert names(ledger.in_force) == ["hot_asm"]

        def busy(*_: object) -> None:
            raise TargetError("busy", "a thread stays inside an instrument")

        with monkeypatch.context() as patched:
            patched.setattr(target.process.keeper, "change", busy)
            with pytest.raises(TargetError):
                session.insert("hot:entry", api.count)
        assert names(ledger.in_force) == ["hot_asm"]
        session.insert("hot:entry", api.count)
        assert names(ledger.in_force) == ["hot", "hot_asm"]
    assert session.restored is True

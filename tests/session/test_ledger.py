# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a ledger says is in force, after changes and after one that failed."""

from __future__ import annotations

import pytest

from gilk.errors import TargetError
from gilk.session.session import InForce, Session
from tests.fake.sessions import program, session
from tests.fake.target import FakeProcess


def names(in_force: InForce) -> list[str]:
    return sorted(batch.names[unit] for batch, units in in_force for unit in units or range(len(batch.names)))


def in_force(of: Session) -> list[str]:
    return names(of._ledger.in_force)


def test_what_goes_and_what_never_came_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    process = FakeProcess(program())
    with session(process) as of:
        first = of.insert("leaf:entry", "count")
        of.insert("loop:entry", "count")
        assert in_force(of) == ["leaf", "loop"]
        of.remove(first)
        assert in_force(of) == ["loop"]

        def busy(*_: object) -> None:
            raise TargetError("busy", "a thread stays inside an instrument")

        with monkeypatch.context() as patched:
            patched.setattr(process.keeper, "change", busy)
            with pytest.raises(TargetError):
                of.insert("leaf:entry", "count")
        assert in_force(of) == ["loop"]
        of.insert("leaf:entry", "count")
        assert in_force(of) == ["leaf", "loop"]
    assert of.restored is True


def test_a_function_is_planned_as_a_whole() -> None:
    """To add to it, its plan is undone, and another one done in the same change; what was before may still be run."""
    process = FakeProcess(program())
    with session(process) as of:
        of.insert("loop:entry", "count")
        (before,) = of._ledger.batches
        of.insert("loop:blocks", "count")
        assert in_force(of) == ["loop"]
        assert len(of._ledger.batches) == 2 and of._ledger.batches[0] is before
        assert process.keeper.keeper.held.in_arena(int(before.low[0]))


def test_all_that_is_asked_for_comes_in_one_change() -> None:
    process = FakeProcess(program())
    changes: list[int] = []
    change = process.keeper.change

    def counted(*units: dict[int, set[int]]) -> object:
        changes.append(sum(map(len, units[1].values())))
        return change(*units)

    process.keeper.change = counted  # type: ignore[method-assign, assignment]
    with session(process) as of:
        of.insert("*:entry", "count")
        assert changes == [len(in_force(of))]

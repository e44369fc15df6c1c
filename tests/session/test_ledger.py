# SPDX-License-Identifier: LGPL-2.1-or-later
"""A ledger's account of the probes in force, after changes and after a change that failed; dormant probes that are
activated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gilk.engines.follow.functions import Functions, of_template
from gilk.errors import TargetError
from gilk.session.placed import PlacedTiming, place_timing
from gilk.session.plan_workers import timing_templates
from gilk.session.session import InForce, Session
from tests.fake.sessions import alone, code, counts, program, session, wanted
from tests.fake.target import FakeProcess


def names(in_force: InForce) -> list[str]:
    return sorted(batch.names[unit] for batch, units in in_force for unit in units)


def in_force(of: Session) -> list[str]:
    return names(of._ledger.in_force)


def test_removed_and_refused_probes_are_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """To add a probe to it, the function's plan is undone and another one done in the same change; the old code may
    still be running."""
    process = FakeProcess(program())
    with session(process) as of:
        of.insert("loop:entry", "count")
        (before,) = of._ledger.batches
        of.insert("loop:blocks", "count")
        assert in_force(of) == ["loop"]
        assert len(of._ledger.batches) == 2 and of._ledger.batches[0] is before
        assert process.keeper.keeper.held.in_arena(int(before.low[0]))


def test_all_probes_of_one_request_are_inserted_by_one_change() -> None:
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


# Dormant probes.


@contextlib.contextmanager
def failing(process: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the block, changes of the target fail."""

    def busy(*_: object) -> None:
        raise TargetError("busy", "a thread stays inside an instrument")

    with monkeypatch.context() as patched, pytest.raises(TargetError):
        patched.setattr(process.keeper, "change", busy)
        yield


def forbid_planning(of: Session) -> None:
    def planning(*_: object) -> None:
        raise AssertionError("something was planned")

    of._ledger.planner.planning = planning  # type: ignore[assignment]


def test_a_dormant_probe_is_activated_without_planning_again() -> None:
    """The probe counts from its activation until its deactivation."""
    one, (result, executed, _) = program(), alone()
    before = code(one)
    process = FakeProcess(one)
    with session(process) as of:
        asked = wanted(process, "*:entry")
        probes = of.insert_wanted(asked, active=False)
        assert code(one) == before and in_force(of) == []
        forbid_planning(of)
        one.rounds(2)
        assert not any(counts(of, asked, probes).values())
        for _ in range(2):
            of.activate(probes)
            assert code(one) != before
            one.rounds(1)
            seen = counts(of, asked, probes)
            of.deactivate(probes)
            assert code(one) == before
            one.rounds(1)
            assert counts(of, asked, probes) == seen
        assert 0 < sum(seen.values()) < sum(executed[address] for address in seen)
        of.activate(probes)
        assert one.finish() == result
    assert of.restored is True


def test_only_the_active_probes_of_a_function_count() -> None:
    """The probes at the function's blocks are dormant, and that at its entry is active; then all are active, then
    only those at the blocks."""
    one, (result, executed, _) = program(), alone()
    process = FakeProcess(one)
    with session(process) as of:
        blocks, entry = wanted(process, "loop:blocks"), wanted(process, "loop:entry")
        dormant = of.insert_wanted(blocks, active=False)
        active = of.insert_wanted(entry)
        one.rounds(3)
        assert not any(counts(of, blocks, dormant).values())
        of.activate(dormant)
        seen = counts(of, entry, active)
        of.deactivate(active)
        assert one.finish() == result
        assert counts(of, entry, active) == seen
        (hits,) = seen.values()
        address = next(iter(seen))
        assert hits + counts(of, blocks, dormant)[address] == executed[address]
        assert 0 < hits < executed[address]


def test_a_change_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes are: activation, with a plan and with another one; deactivation; and removal."""
    one = program()
    before, result = code(one), alone()[0]
    process = FakeProcess(one)
    with session(process) as of:
        leaf, loop = (of.insert(f"{name}:blocks", "count", active=False) for name in ("leaf", "loop"))
        entry = of.insert("loop:entry", "count")
        state = code(one)
        for probes in (leaf, loop):
            with failing(process, monkeypatch):
                of.activate(probes)
            assert code(one) == state and in_force(of) == ["loop"]
        with failing(process, monkeypatch):
            of.deactivate(entry)
        with failing(process, monkeypatch):
            of.remove([*leaf, *loop, *entry])
        assert in_force(of) == ["loop"] and len(of.probes) == len([*leaf, *loop, *entry])
        of.activate(leaf)
        of.activate(loop)
        assert in_force(of) == ["leaf", "loop"]
        of.remove(of.probes)
        assert code(one) == before and not of._ledger.held
        assert one.finish() == result


# Templates.


def placed(of: Session, process: FakeProcess) -> tuple[PlacedTiming, Functions]:
    """The timing of all functions of the program, placed and dormant."""
    (main,) = (loaded for loaded in process.loaded() if loaded.main)
    (template,) = timing_templates(process, [main], of._workspace.shape).values()
    starts = set(template.unit_start.tolist())
    made = place_timing(of._workspace, main, template, len(of._everything), starts)
    assert made is not None
    of._ledger.hold(made)
    of._everything += made.rows
    of._know(0.0)
    return made, of_template(made, starts)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("came", [False, True], ids=["fresh", "known"])
@pytest.mark.parametrize("active", [False, True], ids=["dormant", "active"])
def test_probes_of_a_template_go_on_beside_added_probes(active: bool, came: bool) -> None:
    """The function is planned anew with both; the other functions of the template stay its units. If ``came``, a
    probe of the function had come and gone before the template was placed."""
    one, (result, executed, _) = program(), alone()
    before = code(one)
    process = FakeProcess(one)
    with session(process) as of:
        if came:
            of.remove(of.insert_wanted(wanted(process, "leaf:entry")))
        made, functions = placed(of, process)
        assert code(one) == before and len(functions.names) > 3
        if active:
            of._ledger.activate(functions.keys)
        asked = wanted(process, "leaf:entry")
        probes = of.insert_wanted(asked)
        number = functions.names.index("leaf")
        edges = np.cumsum(functions.sizes)
        keys = functions.keys[edges[number] - functions.sizes[number] : edges[number]]
        assert of._ledger.units(keys).keys() != {made.number}
        assert of._ledger.units(functions.keys).keys() >= {made.number}
        of._ledger.activate(functions.keys)
        assert one.finish() == result
        table = of.poll()
        hits = table.filter([kind == "time-entry" for kind in table["kind"].to_pylist()])["point"].to_pylist()
        assert hits.count(of.rows[functions.entries[number] - 1].point) == sum(counts(of, asked, probes).values()) > 0
        assert counts(of, asked, probes) == {at: executed[at] for at in counts(of, asked, probes)}
    assert of.restored is True


@pytest.mark.usefixtures("own_cache")
def test_a_template_is_dropped_when_all_its_functions_are_planned_again() -> None:
    one, result = program(), alone()[0]
    process = FakeProcess(one)
    with session(process) as of:
        made, functions = placed(of, process)
        of.insert_wanted(wanted(process, "*:blocks"))
        assert not any(batch is made.batch for batch, _ in of._ledger.held)
        of._ledger.activate(functions.keys)
        assert set(in_force(of)) >= set(functions.names)
        assert one.finish() == result
    assert of.restored is True


@pytest.mark.usefixtures("own_cache")
def test_an_activation_that_fails_leaves_all_probes_dormant(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    before, result = code(one), alone()[0]
    process = FakeProcess(one)
    with session(process) as of:
        _, functions = placed(of, process)
        process.keeper.expect(of._ledger.expect(functions.keys), {})

        def busy() -> None:
            raise TargetError("busy", "a thread stays inside an instrument")

        with pytest.raises(TargetError):
            of._ledger.begin(busy)  # type: ignore[arg-type]
        assert in_force(of) == [] and code(one) == before and of._ledger.expects
        of._ledger.begin(process.keeper.begin)
        assert set(in_force(of)) >= set(functions.names)
        of._ledger.deactivate(functions.keys[: functions.sizes[0]])
        assert not of._ledger.expects
        of._ledger.deactivate(functions.keys)
        assert code(one) == before
        assert one.finish() == result

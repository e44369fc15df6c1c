# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables that run full are emptied, without loss, once no thread is in a clause that began before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.trace.d import recycling
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import Drops
from gilk.trace.d.layout import GRANULE
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.recycling import Recycling
from tests.native.d.session import KNOWN, Session, Shared

COUNT, BY_KEY = KNOWN[0], KNOWN[1]


class Place:
    """Memory with little room, and the clauses that are under way in it, by thread."""

    def __init__(self, aggsize: int = 1 << 14) -> None:
        self.shared = Shared(MemoryOptions(1, aggregations=len(KNOWN), aggsize=aggsize))
        self.aggregations = AggregationReader(self.shared.memory, KNOWN)
        self.running: dict[int, Session] = {}
        self.recycling = Recycling(self.aggregations, lambda: set(self.running))
        self.made = 0

    def count(self, session: Session, keys: int = 1) -> None:
        for _ in range(keys):
            session.aggregate(BY_KEY, self.made.to_bytes(8, "little"), 1)
            session.aggregate(COUNT, b"", 1)
            self.made += 1

    def seen(self) -> tuple[int, int]:
        """The number of keys, and the count of all hits."""
        found = self.aggregations.snapshot()
        keyed = [cells[0] for (number, _), cells in found.items() if number == BY_KEY.number]
        assert set(keyed) <= {1}
        return len(keyed), found.get((COUNT.number, b""), (0,))[0]

    def used(self) -> list[int]:
        return [int(self.shared.memory.table(bank, 0).used) for bank in (0, 1)]


def test_this_kernel_has_the_needed_membarrier() -> None:
    """Without the barrier nothing is recycled, and values that find no room are dropped."""
    assert recycling.has_barrier() == recycling.barrier()


def test_a_table_is_not_emptied_while_a_clause_may_use_it() -> None:
    place = Place()
    place.running[7] = old = place.shared.session()
    place.count(old, 200)
    place.recycling.tend()
    place.running[8] = place.shared.session()  # it began after the switch
    for _ in range(3):
        place.recycling.tend()
        place.count(old, 5)  # in the tables that were in use when it began
        place.count(place.running[8], 5)
    assert min(place.used()) > GRANULE
    del place.running[7]
    place.recycling.tend()
    assert place.used()[0] == GRANULE
    assert place.seen() == (place.made, place.made)


def test_a_thread_seen_outside_of_clauses_is_not_waited_for() -> None:
    place = Place()
    for thread in (1, 2):
        place.running[thread] = place.shared.session()
    place.count(place.running[1], 200)
    place.recycling.tend()
    for thread in (1, 2):
        left = place.running.pop(thread)
        place.recycling.tend()
        place.running[thread] = place.shared.session()
        assert (place.used()[0] == GRANULE) == (thread == 2)
        place.count(place.running[thread])
        del left
    assert place.seen() == (place.made, place.made)


def test_without_the_barrier_no_table_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    for failing in ("has_barrier", "barrier"):
        with monkeypatch.context() as without:
            without.setattr(recycling, failing, lambda: False)
            place = Place()
            place.count(place.shared.session(), 200)
            for _ in range(4):
                place.recycling.tend()
            assert place.used()[0] > GRANULE
            assert place.seen() == (200, 200)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "count", "tend", "show", "trunc"]), st.integers(0, 3)),
                max_size=60))  # fmt: skip
def test_every_key_is_shown_once_after_recycling(steps: list[tuple[str, int]]) -> None:
    """printa() and trunc() show the keys during ticks, and the end of the session shows the rest."""
    place = Place()
    shown = lost = 0
    drops = Drops(place.shared.memory)
    for what, thread in steps:
        match what:
            case "begin":
                place.running.setdefault(thread, place.shared.session())
            case "end":
                place.running.pop(thread, None)
            case "count" if thread in place.running:
                place.count(place.running[thread], 40)
            case "tend":
                place.recycling.tend()
            case "trunc":
                place.aggregations.age()
                found = place.aggregations.recent((BY_KEY.number,))
                shown += sum(cells[0] for cells in found.values())
                if thread in place.running:
                    place.count(place.running[thread], 3)  # between showing and removing
                place.aggregations.trunc(BY_KEY.number, [key for _, key in found])
    lost = sum(drop.count for drop in drops.look())
    assert shown + place.seen()[0] + lost == place.made
    assert not place.aggregations.errors


def test_a_clause_keeps_the_table_it_began_with() -> None:
    """This is the model's own rule: a session keeps the tables that were in use when it first counted."""
    place = Place()
    old = place.shared.session()
    place.count(old)
    place.aggregations.switch()
    place.count(old)
    assert place.used()[0] > GRANULE
    assert place.used()[1] == GRANULE

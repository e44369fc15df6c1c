# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aggregations equal those that a dictionary would hold, whatever is cleared, truncated or moved in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.drops import Drops
from gilk.trace.d.events import DropKind, Dropped
from gilk.trace.d.memory import MemoryOptions
from gilk.trace.d.tables import Key
from tests.native.d.session import Shared

WHATS = (
    *(Aggregating(Function.COUNT), Aggregating(Function.SUM), Aggregating(Function.MIN), Aggregating(Function.MAX)),
    *(Aggregating(Function.AVG), Aggregating(Function.STDDEV), Aggregating(Function.QUANTIZE)),
    Aggregating(Function.LQUANTIZE, low=-20, high=35, step=10),
    Aggregating(Function.LLQUANTIZE, low=1, high=3, factor=10, steps=20),
)
KNOWN = tuple(Aggregation(number, f"a{number}", what, (), 16) for number, what in enumerate(WHATS, start=1))
KEYS = (b"", b"12345678", b"another, longer!")
S64 = st.one_of(st.integers(-50, 50), st.integers(-(1 << 63), (1 << 63) - 1))


def signed(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def quantized(value: int) -> int:
    if value > 0:
        return 63 + value.bit_length()
    return 63 if value == 0 else max(63 - (-value).bit_length(), 0)


def linear(what: Aggregating, value: int) -> int:
    if value < what.low:
        return 0
    return min((value - what.low) // what.step + 1, what.cells - 1)


def logarithmic(what: Aggregating, value: int) -> int:
    away = sum(edge <= abs(value) for edge in what.edges)
    return len(what.edges) + (away if value > 0 else -away)


BUCKET: dict[Function, Callable[[Aggregating, int], int]] = {
    Function.QUANTIZE: lambda what, value: quantized(value),
    Function.LQUANTIZE: linear,
    Function.LLQUANTIZE: logarithmic,
}


def model(what: Aggregating, updates: list[tuple[int, int]]) -> tuple[int, ...]:
    """The cells that an aggregation of these weighted values must have."""
    values = [value for value, _ in updates]
    total = signed(sum(values))
    match what.function:
        case Function.COUNT:
            return (len(values),)
        case Function.SUM:
            return (total,)
        case Function.MIN:
            return (min(values, default=(1 << 63) - 1),)
        case Function.MAX:
            return (max(values, default=-(1 << 63)),)
        case Function.AVG:
            return (len(values), total)
        case Function.STDDEV:
            squares = sum(value * value for value in values)
            return (len(values), total, squares & (1 << 64) - 1, squares >> 64 & (1 << 64) - 1)
        case _:
            cells = [0] * what.cells
            for value, weight in updates:
                cells[BUCKET[what.function](what, value)] += weight
            return tuple(signed(cell) for cell in cells)


UPDATE = st.tuples(st.sampled_from(KNOWN), st.sampled_from(KEYS), S64, st.integers(-3, 3), st.integers(0, 5))
CONSUMER = st.tuples(
    st.sampled_from(["snapshot", "clear", "trunc", "trunc one", "switch", "retire"]), st.sampled_from(KNOWN)
)


@settings(max_examples=60)
@given(steps=st.lists(st.one_of(UPDATE, CONSUMER), max_size=60))
def test_aggregations_agree_with_a_dictionary(steps: list[tuple[object, ...]]) -> None:
    shared = Shared(MemoryOptions(4, bufsize=4096, aggsize=1 << 16, dynvarsize=0, aggregations=len(KNOWN), scratches=1))
    reader = AggregationReader(shared.memory, KNOWN)
    updates: dict[Key, list[tuple[int, int]]] = {}

    def check() -> None:
        assert reader.snapshot() == {key: model(KNOWN[key[0] - 1].what, found) for key, found in updates.items()}

    for step in steps:
        if len(step) == 5:
            which, key, value, weight, cpu = step
            assert isinstance(which, Aggregation) and isinstance(key, bytes) and isinstance(cpu, int)
            assert isinstance(value, int) and isinstance(weight, int)
            shared.session(cpu=cpu).aggregate(which, key, value, weight)
            updates.setdefault((which.number, key), []).append((value, weight))
            continue
        what, which = step
        assert isinstance(which, Aggregation)
        check()  # clear() and trunc() work on the last values that were seen
        mine = [key for key in updates if key[0] == which.number]
        if what == "clear":
            reader.clear(which.number)
            updates.update((key, []) for key in mine)
        elif what == "trunc":
            reader.trunc(which.number)
            for key in mine:
                del updates[key]
        elif what == "trunc one":
            reader.trunc(which.number, [KEYS[1]])
            updates.pop((which.number, KEYS[1]), None)
        elif what == "switch":
            reader.switch()
            reader.retire()
        elif what == "retire":
            reader.retire()
    check()
    assert not reader.errors and not Drops(shared.memory).look()


def test_updates_between_a_snapshot_and_clear_are_kept() -> None:
    shared = Shared(MemoryOptions(1, aggregations=len(KNOWN)))
    reader, session = AggregationReader(shared.memory, KNOWN), shared.session()
    for which in KNOWN[:4]:
        session.aggregate(which, b"", 5)
    reader.snapshot()
    for which, value in zip(KNOWN[:4], (1, 7, 3, 9), strict=True):
        session.aggregate(which, b"", value)
    for which in KNOWN[:4]:
        reader.clear(which.number)
    assert [cells for _, cells in sorted(reader.snapshot().items())] == [(1,), (7,), (3,), (9,)]


def test_trunc_hides_only_rows_that_were_read() -> None:
    shared = Shared(MemoryOptions(1, aggregations=1))
    reader, session = AggregationReader(shared.memory, KNOWN[:1]), shared.session()
    session.aggregate(KNOWN[0], KEYS[1], 0)
    reader.snapshot()
    session.aggregate(KNOWN[0], KEYS[2], 0)
    reader.trunc(1)
    assert reader.snapshot() == {(1, KEYS[2]): (1,)}
    session.aggregate(KNOWN[0], KEYS[1], 0)
    assert reader.snapshot() == {(1, KEYS[2]): (1,), (1, KEYS[1]): (1,)}


def test_a_cleared_sum_of_zero_is_shown_again_when_updated() -> None:
    shared = Shared(MemoryOptions(1, aggregations=2))
    reader, session = AggregationReader(shared.memory, KNOWN[1:2]), shared.session()
    session.aggregate(KNOWN[1], b"", 4)
    reader.snapshot()
    reader.trunc(2)
    assert reader.snapshot() == {}
    session.aggregate(KNOWN[1], b"", 0)
    assert reader.snapshot() == {(2, b""): (0,)}


@pytest.mark.parametrize("aggsize", [4096, 1 << 16])
def test_updates_without_room_are_counted_and_others_go_on(aggsize: int) -> None:
    shared = Shared(MemoryOptions(1, aggsize=aggsize, aggregations=1))
    reader, session, drops = AggregationReader(shared.memory, KNOWN[:1]), shared.session(), Drops(shared.memory)
    keys = [number.to_bytes(8, "little") for number in range(5000)]
    for key in keys * 2:
        session.aggregate(KNOWN[0], key, 0)
    found = reader.snapshot()
    (drop,) = drops.look()
    assert drop == Dropped(DropKind.AGGREGATION, 0, 2 * (5000 - len(found))) and drops.look() == ()
    assert set(found.values()) == {(2,)} and len(found) * 32 > aggsize * 0.9
    assert reader.fill() > 0.9
    # The emptied table has room again, and nothing is forgotten.
    reader.switch()
    reader.retire()
    shared.session().aggregate(KNOWN[0], keys[-1], 0)
    assert reader.snapshot() == {**found, (1, keys[-1]): (1,)}


def test_a_memory_for_fewer_aggregations_is_refused() -> None:
    with pytest.raises(ValueError, match="not planned"):
        AggregationReader(Shared(MemoryOptions(1, aggregations=1)).memory, KNOWN)

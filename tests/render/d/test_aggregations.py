# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aggregations in print, against texts that DTrace would print."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from gilk.lang.d.buckets import bucket
from gilk.lang.data import Aggregating, Aggregation, Datum, Function, Kind
from gilk.render.d.aggregations import key, table
from gilk.trace.d.contents import AggregationRow, Contents
from gilk.trace.d.snapshots import finals, snapshot
from gilk.trace.d.sorting import BY_VALUE, Order
from gilk.trace.d.values import Bytes, Integer, Stack, Symbol, Text, Value

NAME = Datum(Kind.STRING, 0, 16)
HEADER = b"\n           value  ------------- Distribution ------------- count    \n"


def named(function: Function, *rows: tuple[str, tuple[int, ...]], number: int = 1) -> Contents:
    made = (AggregationRow(name.encode().ljust(16, b"\0"), (Text(name.encode()),), cells) for name, cells in rows)
    return Contents(Aggregation(number, "a", Aggregating(function), (NAME,), 16), tuple(made))


def single(function: Function, *cells: int, number: int = 1) -> Contents:
    return Contents(Aggregation(number, "a", Aggregating(function), (), 0), (AggregationRow(b"", (), cells),))


def print_all(contents: Sequence[Contents]) -> bytes:
    return b"".join(map(table, finals(contents)))


def printa(contents: Sequence[Contents], format_: str | None = None, order: Order = BY_VALUE) -> bytes:
    return table(snapshot(contents, order, format_))


def cells(what: Aggregating, value: int, weight: int = 1) -> tuple[int, ...]:
    made = [0] * what.cells
    made[bucket(what, value)] = weight % (1 << 64)
    return tuple(made)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Text(b"init"), b"  init" + b" " * 46),
        (Integer(-2, 1), b" 254"),
        (Integer(-1, 2), b" 65535"),
        (Integer(-2, 4), b"       -2"),
        (Integer(-2, 8), b"               -2"),
        (Integer(-1, 8, False), b"               -1"),
        (Symbol(b"libc`read"), b"  libc`read" + b" " * 41),
        (Bytes(b"dtrace\0\0"), b"  dtrace" + b" " * 44),
        (Stack((b"a`f",)), b"\n              a`f\n"),
    ],
)
def test_keys_are_printed_by_type(value: Value, text: bytes) -> None:
    assert key(value) == text


def test_a_structure_as_key_is_dumped() -> None:
    assert key(Bytes(b"\1\2\3")).endswith(b"         0: 01 02 03" + b" " * 39 + b"  ...\n")


def test_aggregations_are_printed_by_value_and_then_by_key() -> None:
    contents = named(Function.COUNT, ("init", (9,)), ("bash", (2,)), ("awk", (2,)))
    assert print_all([contents]) == (
        b"  awk                                                               2\n"
        b"  bash                                                              2\n"
        b"  init                                                              9\n"
    )
    assert printa([contents]) == b"\n" + print_all([contents])


def test_several_aggregations_are_printed_in_order() -> None:
    both = [single(Function.SUM, -5 % (1 << 64), number=1), single(Function.AVG, 2, 9, number=2)]
    assert print_all(both) == b"               -5\n                4\n"


def test_an_empty_aggregation_prints_nothing_but_a_line_of_printa() -> None:
    empty = named(Function.COUNT)
    assert (print_all([empty]), printa([empty]), printa([empty], "%s\n")) == (b"", b"\n", b"")


def test_a_distribution_by_name() -> None:
    what = Aggregating(Function.QUANTIZE)
    assert print_all([named(Function.QUANTIZE, ("k-ingleside", cells(what, 1, 123)))]) == (
        b"  k-ingleside                                       "
        + HEADER
        + b"               0 |                                         0        \n"
        b"               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 123      \n"
        b"               2 |                                         0        \n"
        b"\n"
    )


def test_distributions_are_sorted_by_their_sums() -> None:
    what = Aggregating(Function.QUANTIZE)
    stooges = (("Shemp", 2, 75), ("Curly", 4, 25), ("Larry", 1, -25), ("Moe", 2, -50))
    contents = named(Function.QUANTIZE, *((name, cells(what, value, weight)) for name, value, weight in stooges))
    lines = print_all([contents]).split(b"\n")
    names = [line.strip() for line, following in pairwise(lines) if b"Distribution" in following]
    assert names == [b"Moe", b"Larry", b"Curly", b"Shemp"]


def test_printa_with_a_format() -> None:
    contents = named(Function.SUM, ("b", (1,)), ("a", (-1 % (1 << 64),)))
    assert printa([contents], "%-3s|%@5d|%@x %%\n") == (
        b"a  |   -1|ffffffffffffffff %\nb  |    1|1 %\n"
    )  # fmt: skip


def test_a_distribution_through_a_format_begins_on_a_new_line() -> None:
    what = Aggregating(Function.LQUANTIZE, low=1, high=10, step=1)
    contents = Contents(Aggregation(1, "c", what, (), 0), (AggregationRow(b"", (), cells(what, 1)),))
    assert printa([contents], "@c = %@d\n") == (
        b"@c = " + HEADER + b"             < 1 |                                         0        \n"
        b"               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        \n"
        b"               2 |                                         0        \n"
        b"\n"
    )


COUNTS = named(Function.COUNT, ("a", (1,)), ("b", (3,)), number=1)
SUMS = named(Function.AVG, ("b", (2, 10)), ("c", (1, 4)), number=2)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(), b"c 0 4\na 1 0\nb 3 5\n"),
        (Order(reverse=True), b"b 3 5\na 1 0\nc 0 4\n"),
        (Order(position=1), b"a 1 0\nc 0 4\nb 3 5\n"),
        (Order(position=2), b"c 0 4\na 1 0\nb 3 5\n"),
        (Order(by_key=True), b"a 1 0\nb 3 5\nc 0 4\n"),
    ],
)
def test_printa_joins_aggregations_by_their_keys(order: Order, expected: bytes) -> None:
    assert printa([COUNTS, SUMS], "%s %@d %@d\n", order) == expected


def test_printa_joins_aggregations_without_a_format() -> None:
    lines = printa([COUNTS, SUMS]).splitlines()
    assert lines[0] == b""
    assert lines[1] == b"  c" + b" " * 49 + b" " * 16 + b"0" + b" " * 16 + b"4"
    assert printa([COUNTS, COUNTS], "%s %@d %@d\n") == b"a 1 1\nb 3 3\n"


def test_conversions_beyond_the_aggregations_repeat_the_last_one() -> None:
    assert printa([COUNTS, SUMS.normalized(2)], "%@d %@d %@d;") == b"0 2 2;1 0 0;3 2 2;"


def test_values_of_each_processor_are_printed_after_the_total() -> None:
    row = AggregationRow(b"", (), (5,), ((0, (2,)), (3, (3,))))
    contents = Contents(Aggregation(1, "a", Aggregating(Function.COUNT), (), 0), (row,))
    assert print_all([contents]) == (
        b"                5\n    [CPU 0]                2\n    [CPU 3]                3\n"
    )  # fmt: skip

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes snapshots of aggregations, as values: rows in their order, several aggregations side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from gilk.trace.d.contents import AggregationRow, Contents
from gilk.trace.d.events import Column, Snapshot, SnapshotRow
from gilk.trace.d.sorting import BY_VALUE, Keys, Order, key_rank, ordered, weight
from gilk.values import dataclass

Joined = tuple[
    AggregationRow, list[tuple[Contents, AggregationRow]]
]  # a row with the keys, and the row of each aggregation


def snapshot(contents: Sequence[Contents], order: Order = BY_VALUE, format_: str | None = None) -> Snapshot:
    """The snapshot of ``contents``: one aggregation, or several with the same keys, in the order of printa()'s
    arguments.
    """
    rows = tuple(_row(key, totals) for key, totals in _rows(contents, order))
    return Snapshot(_columns(contents), rows, format_)


def finals(contents: Sequence[Contents], order: Order = BY_VALUE) -> list[Snapshot]:
    """A snapshot of each aggregation that has rows, in the order of their numbers, or in the reverse."""
    found = sorted((one for one in contents if one.rows), key=lambda one: one.aggregation.number, reverse=order.reverse)
    return [
        Snapshot(_columns([one]), tuple(_row(row, [(one, row)]) for _, row in ordered([one], order)), final=True)
        for one in found
    ]


def _columns(contents: Sequence[Contents]) -> tuple[Column, ...]:
    return tuple(Column(one.aggregation, one.normal) for one in contents)


def _row(key: AggregationRow, totals: list[tuple[Contents, AggregationRow]]) -> SnapshotRow:
    processors = tuple(tuple((cpu, one.total(cells)) for cpu, cells in row.processors) for one, row in totals)
    return SnapshotRow(key.keys, tuple(one.total(row.cells) for one, row in totals), processors)


def _rows(contents: Sequence[Contents], order: Order) -> list[Joined]:
    if len(contents) == 1:
        return [(row, [(one, row)]) for one, row in ordered(contents, order)]
    return joined(contents, order)


@dataclass(slots=True)
class _Bundle:
    key: AggregationRow
    rows: dict[int, AggregationRow] = field(default_factory=dict)  # by number of the aggregation


def joined(contents: Sequence[Contents], order: Order = BY_VALUE) -> list[Joined]:
    """Rows with the same keys side by side; an aggregation that lacks a row has zeroes."""
    bundles: dict[bytes, _Bundle] = {}
    for one in contents:
        for row in one.rows:
            bundles.setdefault(row.key, _Bundle(row)).rows[one.aggregation.number] = row
    found = [(bundle.key, [(one, _row_of(bundle, one)) for one in contents]) for bundle in bundles.values()]
    first = order.position if 0 <= order.position < len(contents) else 0

    def rank(pair: Joined) -> tuple[Keys, tuple[tuple[int, ...], ...], Keys]:
        key, totals = pair
        keys = key_rank(contents[0].aggregation, key.key, order.key_position)
        values = tuple(weight(one.aggregation.what, row.cells) for one, row in (*totals[first:], *totals[:first]))
        return (keys, values, ()) if order.by_key else ((), values, keys)

    return sorted(found, key=rank, reverse=order.reverse)


def _row_of(bundle: _Bundle, one: Contents) -> AggregationRow:
    zeroes = AggregationRow(bundle.key.key, bundle.key.keys, (0,) * one.aggregation.what.cells)
    return bundle.rows.get(one.aggregation.number, zeroes)

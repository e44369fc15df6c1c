# SPDX-License-Identifier: LGPL-2.1-or-later
"""The aggregations of a program: their values, and what clear(), trunc(), normalize() and printa() do to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field, replace

from gilk.engines.dtrace.names import Names
from gilk.lang.d.options import Options
from gilk.lang.data import Aggregation, Datum, Kind
from gilk.trace.d import snapshots, sorting
from gilk.trace.d.aggregations import AggregationReader
from gilk.trace.d.contents import AggregationRow, Contents
from gilk.trace.d.events import Snapshot
from gilk.trace.d.merging import Merged, idle, merged
from gilk.trace.d.sorting import Order
from gilk.trace.d.values import Value, decode, raw
from gilk.values import dataclass


@dataclass
class Aggregated:
    """The state of a program's aggregations, one per session.

    ``known``: the program's aggregations; ``live``: reads their current contents. The object keeps what actions have
    done to them.
    """

    known: tuple[Aggregation, ...]
    live: AggregationReader
    options: Options
    names: Names
    _normal: dict[str, int] = field(default_factory=dict)
    _printed: set[str] = field(default_factory=set)

    def print(self, names: Sequence[str], format_: str | None) -> Snapshot:
        """The snapshot for printa(), which shows several aggregations side by side."""
        self._printed.update(names)
        contents = self._contents([self._called(name) for name in names], format_ is not None)
        taken = snapshots.snapshot(contents, self._order(), format_)
        if format_ is None:
            return taken
        found = (self.names.wanted(format_, row.keys, row.totals) for row in taken.rows)
        return replace(taken, names=tuple(dict(pair for each in found for pair in each).items()))

    def left(self) -> list[Snapshot]:
        """Snapshots of the aggregations that the program has not printed, all from one moment."""
        contents = self._contents([one for one in self.known if one.name not in self._printed])
        return snapshots.finals(contents, self._order())

    def now(self) -> list[Snapshot]:
        """Snapshots of all aggregations that have rows at the moment; unlike printa(), this has no effect on them."""
        found: dict[int, dict[bytes, tuple[int, ...]]] = {one.number: {} for one in self.known}
        for (number, key), cells in self.live.snapshot().items():
            found[number][key] = cells
        return snapshots.finals([self._content(one, found[one.number], False) for one in self.known], self._order())

    def clear(self, name: str) -> None:
        number = self._called(name).number
        self.live.recent((number,))
        self.live.clear(number)

    def trunc(self, name: str, keep: int) -> None:
        """Remove all keys but the ``keep`` largest; if ``keep`` is negative, all but the smallest."""
        wanted = self._called(name)
        (contents,) = self._contents([wanted])
        kept = {row.key for row in sorting.truncated(contents, keep).rows}
        gone = (key for row in contents.rows if row.key not in kept for key in row.raw)
        self.live.trunc(wanted.number, gone)

    def normalize(self, name: str, by: int) -> None:
        """Divide the aggregation's values by ``by`` when they are shown; 1 undoes that, as denormalize() does."""
        self._normal[name] = by

    def plain(self, datum: Datum, data: bytes) -> Value:
        """The value to print without a format; with the option rawbytes, strings are shown as bytes."""
        if self.options.flag("rawbytes") and datum.kind in (Kind.STRING, Kind.BYTES):
            return raw(datum, data)
        return decode(datum, data, self.names.resolve)

    def _called(self, name: str) -> Aggregation:
        return next(one for one in self.known if one.name == name)

    def _contents(self, wanted: Sequence[Aggregation], formatted: bool = False) -> list[Contents]:
        """The contents of the aggregations, all from one moment."""
        found: dict[int, dict[bytes, tuple[int, ...]]] = {one.number: {} for one in wanted}
        for (number, key), cells in self.live.recent(found).items():
            found[number][key] = cells
        return [self._content(one, found[one.number], formatted) for one in wanted]

    def _content(self, one: Aggregation, found: dict[bytes, tuple[int, ...]], formatted: bool) -> Contents:
        rows = []
        for key, row in merged(one, found, self.names.stands).items():
            values = tuple(
                decode(datum, key, self.names.resolve) if formatted else self.plain(datum, key) for datum in one.keys
            )
            rows.append(AggregationRow(key, values, row.cells, _processors(one, row), tuple(row.keys)))
        return Contents(one, tuple(rows), self._normal.get(one.name, 1))

    def _order(self) -> Order:
        options = self.options
        return Order(
            options.flag("aggsortkey"),
            options.number("aggsortkeypos"),
            options.number("aggsortpos"),
            options.flag("aggsortrev"),
        )


def _processors(one: Aggregation, row: Merged) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """With the option aggpercpu, the cells of each processor; else nothing."""
    if one.processor is None:
        return ()
    count = max(os.cpu_count() or 1, *(number + 1 for number in row.processors))
    return tuple((number, row.processors.get(number, idle(one))) for number in range(count))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The values of aggregations, summed over all tables, while clauses go on adding to them.

Cells only grow, and an entry is never taken out of a table. The effect of clear() and trunc() is therefore remembered
here: a value is the present sum less that of the snapshot that was last shown, so an update that comes between the
snapshot and clear() counts for the next one. MIN and MAX, which cannot be subtracted, change cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from gilk.errors import StoreError
from gilk.lang.data import Aggregation, Function
from gilk.trace.d.layout import BANKS
from gilk.trace.d.memory import ProgramMemory
from gilk.trace.d.tables import Cells, Key, TableEntry, entries, merge, minus, shown, wipe
from gilk.trace.possible import Possible
from gilk.values import dataclass

_EXTREMES = (Function.MIN, Function.MAX)
_COUNTED = (Function.COUNT, Function.AVG, Function.STDDEV)  # their first cell is the number of updates


@dataclass(slots=True)
class _Total:
    """The sum of a key's cells in the tables, and whether any of its entries was updated since the last trunc()."""

    cells: Cells
    touched: bool


@dataclass(slots=True)
class _Past:
    """The past of one aggregation, by key: the cells that its present value leaves out, or adds for tables that were
    emptied.
    """

    carried: dict[bytes, Cells] = field(default_factory=dict)  # the cells of tables that were emptied
    base: dict[bytes, Cells] = field(default_factory=dict)  # the cells that were cleared
    hidden: set[bytes] = field(default_factory=set)  # the keys removed by trunc(), and not updated since
    last: dict[bytes, Cells] = field(default_factory=dict)  # the cells in the last snapshot


class AggregationReader:
    """Reads the tables of a memory object. There must be one reader for each object."""

    def __init__(self, memory: ProgramMemory, known: Iterable[Aggregation]) -> None:
        self._memory = memory
        self._known = {aggregation.number: aggregation for aggregation in known}
        self._past = {number: _Past() for number in self._known}
        self._recent: dict[int, dict[bytes, tuple[int, ...]]] = {}
        self.errors: list[StoreError] = []
        self._possible = Possible()
        if any(not 0 <= number < memory.layout.aggregations for number in self._known):
            raise ValueError("the memory was not planned for as many aggregations")

    def age(self) -> None:
        """Forget the snapshots that recent() keeps."""
        self._recent.clear()

    def recent(self, numbers: Iterable[int]) -> dict[Key, tuple[int, ...]]:
        """A snapshot of the aggregations ``numbers``; one that was read since the last `age`, and not changed, is as it
        was then.

        So clear() subtracts exactly what printa() showed: an update that comes in between counts for the next time.
        """
        wanted = list(numbers)
        missing = {number for number in wanted if number not in self._recent}
        if missing:
            found = self.snapshot(missing)
            for number in missing:
                self._recent[number] = {key: cells for (of, key), cells in found.items() if of == number}
        return {(number, key): cells for number in wanted for key, cells in self._recent[number].items()}

    def snapshot(self, wanted: Iterable[int] | None = None) -> dict[Key, tuple[int, ...]]:
        """The cells by (number, key), as `Aggregating.cells` has them; signed, but for counts and sums of squares.

        ``wanted``: the numbers of the aggregations to read; None for all.
        """
        found: dict[Key, tuple[int, ...]] = {}
        numbers = set(self._known if wanted is None else wanted)
        totals = self._totals()
        self._unhide(totals)
        for (number, key), total in totals.items():
            if number not in numbers:
                continue
            past, function = self._past[number], self._known[number].what.function
            base = past.base.get(key)
            past.last[key] = total.cells
            if key not in past.hidden:
                left = total.cells if base is None else minus(function, total.cells, base)
                if function in _COUNTED and left[0] > self._possible.in_all:
                    self.errors.append(StoreError("stream-corrupt", "an aggregation has an impossible count"))
                    continue
                found[number, key] = shown(function, left)
        return found

    def clear(self, number: int) -> None:
        """Clear an aggregation: its keys stay, with the updates that came after the last snapshot."""
        self._take_off(number, self._past[number].last)

    def trunc(self, number: int, keys: Iterable[bytes] | None = None) -> None:
        """Remove ``keys``, or all keys of the last snapshot, until they are updated again."""
        past = self._past[number]
        chosen = [key for key in (past.last if keys is None else keys) if key in past.last]
        self._take_off(number, chosen)
        past.hidden.update(chosen)

    def fill(self) -> float:
        """The part of the fullest table in use that is taken, from 0 to 1."""
        layout, bank = self._memory.layout, self._bank()
        used = max(self._memory.table(bank, shard).used for shard in range(layout.shards))
        return min(float(used / layout.heap_size), 1.0)

    def switch(self) -> None:
        """Have clauses that begin from now on use the other tables, which `retire` has emptied."""
        self._memory.control.bank = 1 - self._bank()

    def retire(self) -> None:
        """Take all entries from the tables not in use, and empty these.

        This may be called only when no clause that began before `switch` runs any more, in any process: otherwise
        updates are lost, and an entry that a clause inserts takes the place of another.
        """
        self._unhide(self._totals())
        bank = 1 - self._bank()
        for (number, key), total in self._collect([bank]).items():
            past = self._past[number]
            before = past.carried.get(key)
            function = self._known[number].what.function
            past.carried[key] = total.cells if before is None else merge(function, before, total.cells)
        for shard in range(self._memory.layout.shards):
            wipe(self._memory, bank, shard)
        self._forget()

    def _bank(self) -> int:
        return int(self._memory.control.bank) % BANKS

    def _entries(self, banks: Iterable[int]) -> Iterable[TableEntry]:
        for bank in banks:
            for shard in range(self._memory.layout.shards):
                self._memory.fetch_table(bank, shard)
                yield from entries(self._memory, bank, shard, self._known, self.errors)

    def _collect(self, banks: Iterable[int]) -> dict[Key, _Total]:
        """The totals of all keys in the tables of ``banks``."""
        generation = self._memory.generations.tolist()
        totals: dict[Key, _Total] = {}
        for entry in self._entries(banks):
            function = self._known[entry.number].what.function
            now = generation[entry.number]
            cells = entry.cells(function, now)
            touched = entry.touched == (now + 1) & 0xFFFFFFFF
            total = totals.get((entry.number, entry.key))
            if total is None:
                totals[entry.number, entry.key] = _Total(cells, touched)
            else:
                total.cells = merge(function, total.cells, cells)
                total.touched |= touched
        return totals

    def _totals(self) -> dict[Key, _Total]:
        totals = self._collect(range(BANKS))
        for number, past in self._past.items():
            for key, cells in past.carried.items():
                total = totals.get((number, key))
                if total is None:
                    totals[number, key] = _Total(cells, False)
                else:
                    total.cells = merge(self._known[number].what.function, total.cells, cells)
        return totals

    def _unhide(self, totals: dict[Key, _Total]) -> None:
        for (number, key), total in totals.items():
            past = self._past[number]
            if key in past.hidden and self._is_back(self._known[number].what.function, total, past.base.get(key)):
                past.hidden.discard(key)

    @staticmethod
    def _is_back(function: Function, total: _Total, base: Cells | None) -> bool:
        if function in _EXTREMES:
            return total.touched or total.cells != [0]
        return total.touched or total.cells != base

    def _take_off(self, number: int, keys: Iterable[bytes]) -> None:
        self._recent.pop(number, None)
        past = self._past[number]
        chosen = set(keys)
        if self._known[number].what.function in _EXTREMES:
            self._change_cells(number, chosen)
            return
        past.base.update((key, past.last[key]) for key in chosen)
        self._next_generation(number)

    def _next_generation(self, number: int) -> None:
        self._memory.generations[number] = (self._memory.generations[number] + 1) & 0xFFFFFFFF
        self._memory.settle()

    def _change_cells(self, number: int, chosen: set[bytes]) -> None:
        """Zero the cells that will come into use, bring them into use, and only then read those that went out of use.

        A value that came after the last snapshot counts if it is more extreme, also for a key that is new since. A
        writer that is still under way will notice the change, and update again.
        """
        past, function = self._past[number], self._known[number].what.function
        now = self._memory.generations[number]
        for entry in self._entries(range(BANKS)):
            if entry.number == number:
                entry.zero((now + 1) & 1)
        self._memory.settle_tables()
        self._next_generation(number)
        old: dict[bytes, Cells] = {}
        for entry in [entry for entry in self._entries(range(BANKS)) if entry.number == number]:
            old[entry.key] = merge(function, old.get(entry.key, [0]), entry.cells(function, now))
        for key in old.keys() | past.carried.keys():
            value = merge(function, old.get(key, [0]), past.carried.get(key, [0]))
            if key in chosen and value == past.last.get(key):
                value = [0]
            past.carried[key] = value

    def _forget(self) -> None:
        """Forget hidden keys that are in no table: if they come back, they begin at nothing."""
        present = {(entry.number, entry.key) for entry in self._entries(range(BANKS))}
        for number, past in self._past.items():
            for key in [key for key in past.hidden if (number, key) not in present]:
                past.hidden.discard(key)
                for part in (past.carried, past.base, past.last):
                    part.pop(key, None)

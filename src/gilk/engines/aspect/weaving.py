# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file of aspects in running processes: planned everywhere before anything changes, and in everywhere or nowhere.

Processes can join later, and leave, while the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

from gilk.engines.aspect.possible import check_possible
from gilk.engines.aspect.state import WovenLayout, WovenState
from gilk.engines.aspect.woven_process import WovenProcess
from gilk.errors import GilkError
from gilk.lang.aspect.checked import CheckedFile, CheckedTable
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.woven import AspectCounts, WovenReport, WovenTable
from gilk.targets.common_memory import CommonMemory
from gilk.targets.process import Process

_TICK = 0.05  # seconds between looks


class Weaving:
    """As a context manager, everything is out at its end."""

    def __init__(self, file: CheckedFile, members: Mapping[int, Sequence[str]], held: Sequence[Process]) -> None:
        """``members``: the groups of each process of ``held``. Raises UsageError `cannot-weave`, and as WovenProcess
        does."""
        self.file = file
        self._aspects = numbered(file, automata(file))
        check_possible(file, self._aspects)
        self._layout = WovenLayout(self._aspects, file.tables)
        self._memory = CommonMemory(self._layout.size)
        self._state: WovenState | None = None
        self.processes: tuple[WovenProcess, ...] = tuple(self._planned(one, members[one.pid]) for one in held)

    def _planned(self, process: Process, groups: Sequence[str]) -> WovenProcess:
        return WovenProcess(process, self.file, self._aspects, self._layout, groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unweave()

    def weave(self) -> None:
        """Into all, switched off, and then on in all at one moment; into none if one refuses."""
        try:
            for one in self.processes:
                one.weave(self._memory)
        except BaseException:
            self.unweave()
            raise
        self.switch(True)

    def join(self, process: Process, groups: Sequence[str]) -> WovenProcess:
        """One more, which takes part from now on. Raises as weave() does; then the others go on as before."""
        one = self._planned(process, groups)
        one.weave(self._memory)
        self.processes = (*self.processes, one)
        return one

    def leave(self, one: WovenProcess) -> None:
        """Out of one; the others go on. Raises TargetError."""
        self.processes = tuple(each for each in self.processes if each is not one)
        one.unweave()

    def switch(self, on: bool) -> None:
        """All aspects, from their next match on."""
        if self._memory.there:
            self.state.switch(on)

    @property
    def state(self) -> WovenState:
        if self._state is None:
            self._state = WovenState(self._layout, self._aspects, self._memory.view)
        return self._state

    def reports(self, final: bool = False) -> Iterator[WovenReport]:
        """In order of time."""
        return iter(sorted((each for one in self.processes for each in one.reports(final)), key=lambda each: each.at))

    def wait(self, seconds: float | None, stop: Callable[[], bool], tell: Callable[[WovenReport], None]) -> None:
        """Tell reports as they come, until every process has gone, the time is over, or ``stop`` says so."""
        until = None if seconds is None else time.monotonic() + seconds
        while not stop() and not all(one.over for one in self.processes):
            for report in self.reports():
                tell(report)
            if until is not None and time.monotonic() >= until:
                return
            time.sleep(_TICK)

    def unweave(self) -> None:
        """Out of all, also where one of them refuses; switched off before, so that threads that have little to do in
        advice are soon outside of it. Raises the first GilkError."""
        self.switch(False)
        wrong: list[GilkError] = []
        for one in self.processes:
            try:
                one.unweave()
            except GilkError as error:
                wrong.append(error)
        self._memory.close()
        if wrong:
            raise wrong[0]

    def counts(self) -> tuple[AspectCounts, ...]:
        """By aspect, in the order of the file; of all processes together."""
        return self.state.counts()

    def tables(self) -> tuple[WovenTable, ...]:
        return tuple(map(self._table, self.file.tables))

    def _table(self, table: CheckedTable) -> WovenTable:
        rows = sorted(self.state.rows(table.name), key=lambda row: row.key)
        return WovenTable(table, tuple(rows), self.state.lost(table.name))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program's session over several processes that run already. It treats them as a tree (tree_consumer.py), but does
not follow what they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import Enabled, NoSuchProbe
from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.tree_consumer import TreeConsumer
from gilk.lang.d import tree
from gilk.lang.d.probes import described
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.trace.d.events import Lowered, Refused
from gilk.values import dataclass


@dataclass
class SeveralConsumer(TreeConsumer):
    """``process`` is the first process; `adopt` adds the others. ``by_number``: descriptions name each process by its
    own number; else ``pid$target`` means all of them."""

    by_number: bool = False
    _adopted: dict[int, Process] = field(default_factory=dict)  # the other processes, by number
    _compiled: dict[int, tuple[tree.Program, Enabled]] = field(default_factory=dict)  # by number, as _processes
    _known: dict[int, tuple[Loaded, ...]] = field(default_factory=dict)  # images of each, when it was compiled

    def adopt(self, others: Sequence[Process]) -> None:
        """Add the other processes, before anything is compiled. They are let go when the session is."""
        self._adopted.update(enumerate(others, 1))
        self._processes.update(self._adopted)

    def _renamed(self, process: Process) -> Renamed:
        return Renamed() if self.by_number else super()._renamed(process)

    def compile(self, listing: bool = False) -> None:
        """Compile for each process. Raises DoesNotCompile, NoSuchProbe if no process has a probe, UsageError
        `cannot-follow`."""
        super().compile(listing)
        for number, process in self._processes.items():
            self._known[number] = process.loaded()
            self._compiled[number] = self._compiled_in(process)
        if not (listing or self.options.flag("zdefs")):
            self._check_matched()

    def _check_matched(self) -> None:
        for clause in self.compiled.program.clauses:
            for text in clause.probes:
                if described(text) in self._unmatched:
                    raise NoSuchProbe(clause, described(text), "none of the processes has one")

    def start(self) -> list[Refused | Lowered]:
        """Start as with one process: fire BEGIN, and put probes into one process after the other."""
        told = super().start()
        for number, (program, enabled) in self._compiled.items():
            refused = self._put_in(number, self._processes[number], program, enabled)
            told += [Refused(probe, why) for probe, why in refused]
            self._watch_libraries(number, self._processes[number], self._known[number], launched=False)
        return told

    @property
    def _may_be_stopped(self) -> Sequence[Process]:
        return ()

    def _begin_following(self) -> None:
        """Do nothing: no processes are followed."""

    def _rest(self, seconds: float) -> None:
        Consumer._rest(self, seconds)

    def _goes_on(self) -> bool:
        """Whether a process still runs; lets go of those that have ended."""
        for number, process in list(self._processes.items()):
            if not process.alive or not process.keeper.there:
                self._over_with(number)
        return Consumer._goes_on(self) or bool(self._processes)

    def _remarks(self) -> list[str]:
        return Consumer._remarks(self)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program's session over several processes that run already, and all that they start."""

from __future__ import annotations

from dataclasses import field

from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.several_consumer import SeveralConsumer
from gilk.engines.dtrace.tree_consumer import TreeConsumer
from gilk.targets.process import Process
from gilk.trace.d.events import Lowered, Refused
from gilk.values import dataclass


@dataclass
class ForestConsumer(SeveralConsumer):
    """With ``by_number``, a description means the tree that begins with the process that it names."""

    _begin_following = TreeConsumer._begin_following
    _rest = TreeConsumer._rest
    _goes_on = TreeConsumer._goes_on
    _remarks = TreeConsumer._remarks
    _began_with: dict[int, int] = field(default_factory=dict)  # the tree's first process, by process

    @property
    def _roots(self) -> list[Process]:
        return [self._first, *(process for _, process in sorted(self._adopted.items()))]

    def _belongs(self, process: Process, tree: int) -> None:
        self._began_with[process.pid] = self._roots[tree].pid

    def _renamed(self, process: Process) -> Renamed:
        if self.by_number:
            return Renamed(self._began_with.get(process.pid, process.pid), process.pid)
        return Renamed(self._first.pid, process.pid)

    def _check_matched(self) -> None:
        """Do nothing: programs that begin later may have probes."""

    def start(self) -> list[Refused | Lowered]:
        self._told.programs = len(self._roots)
        told = super().start()
        for number, (_, enabled) in self._compiled.items():
            self._note_probes(number, enabled)
        return told

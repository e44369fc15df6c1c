# SPDX-License-Identifier: LGPL-2.1-or-later
"""The question of `gilk top`: in which functions a process spends its time. It is a trace that keeps figures, no
records."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import field

import pyarrow as pa

from gilk.engines.dtrace.symbols import SymbolNames
from gilk.engines.follow.tracing import Tracing
from gilk.errors import TargetError
from gilk.runs.kept import Recorder
from gilk.runs.outcome import Result
from gilk.targets.ended import unless_ended
from gilk.targets.running import PC
from gilk.targets.threads import OwnThreads
from gilk.trace.folding import Figures, Folding, NamedPlace, Thread, TopPeriod
from gilk.trace.traced import NEVER
from gilk.values import dataclass

CALLS = 200_000  # calls a second that gilk can fold if it has most of a processor


@dataclass
class _Fold(Recorder):
    """Folds samples into figures, in place of the recorder that keeps them."""

    folding: Folding | None = None

    def add(self, table: pa.Table) -> str:
        if self.folding is not None:
            self.folding.add(table)
        return ""


@dataclass
class Top(Tracing):
    """A trace of one process without a file. ``tell`` is called with each period, of ``every`` ns, as it ends."""

    every: int = 1_000_000_000
    tell: Callable[[TopPeriod], None] = lambda _period: None
    _sum: Figures = field(default_factory=Figures)
    _begun: int = NEVER  # when the present period began
    _known_drops: int = 0
    _told_omitted: int = 0
    _places: SymbolNames | None = None
    _seen: Counter[NamedPlace] = field(default_factory=Counter)  # samples in the present period
    _seen_before: Counter[NamedPlace] = field(default_factory=Counter)

    def _insert(self) -> None:
        self._folding = Folding(self._about, lambda: self.omitted)
        self._kept = _Fold(folding=self._folding)
        self._places = SymbolNames(self.processes[0])
        super()._insert()

    def _look(self) -> None:
        super()._look()
        if self.started == NEVER:
            return
        if self._begun == NEVER:
            self._begun = self._folding.since = self.started
        self._sample()
        if self._now() - self._begun >= self.every:
            self.tell(self._period())

    def _sample(self) -> None:
        """Sample the running threads: functions that are left out are seen only in this way."""
        assert self._places is not None
        with contextlib.suppress(TargetError):  # the process may end, or be busy with another change
            for one in self.processes[0].sample():
                name = self._places.name(one.registers[PC])
                self._seen[name.function, name.module] += 1

    def _period(self) -> TopPeriod:
        """Close the period that ends now, and return it."""
        gone, now = self._gone(), self._now()
        with unless_ended():
            for _ in range(2):  # records are held back for one poll, to be in order
                self._take_all()
        self._folding.fold(now, gone)
        return self._close_period(self._folding.since)

    def _take_all(self) -> None:
        for session in self.sessions:
            self._keep(session.poll())
        for throttle in self._throttles.values():
            throttle.count()

    def _gone(self) -> Callable[[Set[Thread]], Set[Thread]]:
        """A function that returns which of some threads had ended by now, and so make no more records."""
        known = {(one.pid, one.tid) for session in self.sessions for one in session.drain.identities()}
        live = OwnThreads().live(known)
        return lambda threads: {thread for thread in threads if thread not in live}

    def _close_period(self, now: int) -> TopPeriod:
        figures, begun = self._folding.figures(), self._begun
        self._sum.join(figures)
        drops = sum(session.drain.drops() for session in self.sessions)
        dropped, self._known_drops = drops - self._known_drops, drops
        omitted = tuple(self.omitted[self._told_omitted :])
        self._begun, self._told_omitted = now, len(self.omitted)
        seen, self._seen = self._seen, Counter()
        self._seen_before += seen
        if self._places is not None:
            self._places.look()  # libraries may have been opened
        return TopPeriod(begun, now, figures.rows(), len(figures.threads), dropped, omitted, seen)

    def finish(self) -> Result:
        if self.started != NEVER and self.stopped == NEVER:
            self.stopped = self._now()
        result = super().finish()
        self._folding.fold(max(self.stopped, 0), self._left)
        if self._folding.forgotten:
            result.notes.append(f"calls under way that were given up, there being too many: {self._folding.forgotten}")
        return result

    def whole(self, result: Result) -> TopPeriod:
        """The figures of the whole trace; call it after ``finish``, which returns ``result``."""
        self._sum.join(self._folding.figures())
        start = max(self.started, 0)
        dropped = int(result.numbers["drops"])
        functions, threads = self._sum.rows(), len(self._sum.threads)
        stop, seen = max(self._folding.since, start), self._seen_before + self._seen
        return TopPeriod(start, stop, functions, threads, dropped, tuple(self.omitted), seen, True)

    @staticmethod
    def _left(threads: Set[Thread]) -> Set[Thread]:
        return threads - OwnThreads().live(threads)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live runs, in processes or in a kernel: their counts, and the times of their calls, are shown while they go on.

They keep no records but the last ones of instruments in C.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from gilk.errors import GilkError
from gilk.runs.guest import KernelGuest
from gilk.runs.outcome import added
from gilk.runs.run import Run
from gilk.session.probing import ProbingSession
from gilk.trace.calls import CallTable
from gilk.trace.latencies import Latencies
from gilk.trace.probes import RecordKind
from gilk.trace.samples import schema
from gilk.values import dataclass

_KEPT: Final = 5  # the number of records of instruments in C that are kept for each point
_MOST_POINTS: Final = 20  # the most points for which they are kept
_OWN: Final = pa.array([str(kind) for kind in (RecordKind.OTHER, RecordKind.INTEGER, RecordKind.TEXT)])
_OF_CALLS: Final = schema(frozenset()).names
_SHOWN: Final = ("time", "tid", "point", "value", "extra", "text")


@dataclass
class LiveRun(Run):
    """``pauses``: when it was paused, and until when, in ns since time 0; None: it is paused now."""

    latencies: Latencies = field(default_factory=Latencies)
    pauses: list[tuple[int, int | None]] = field(default_factory=list)
    _last: dict[str, pa.Table] = field(default_factory=dict)

    def last(self) -> list[dict[str, Any]]:
        """The last records that instruments in C have made at each point, the newest last: each with ``point``,
        ``tid``, ``value``, and where it has them ``extra`` and ``text``; ``time`` in ns since the beginning."""
        rows = [row for table in self._last.values() for row in table.to_pylist()]
        return [{name: row[name] for name in _SHOWN if row.get(name) is not None} for row in rows]

    def counts(self) -> dict[str, int]:
        """The hits of every counting point that is in, by its name."""
        return added([session.counts() for session in self.sessions])

    def tactics_by_point(self) -> dict[str, str]:
        """The tactic that put each point in, by the point's name; refused points are missing."""
        probes = [probe for session in self.sessions for probe in session.probes]
        return {probe.row.point: str(probe.tactic) for probe in probes if probe.tactic is not None}

    def refusals_by_point(self) -> dict[str, str]:
        return {each.point: each.reason for session in self.sessions for each in session.refused_points()}

    def stages(self) -> dict[str, Any]:
        """The states of instruments that come and go (runs/experiment/live.py); {} for those that are always in."""
        return {}

    @property
    def is_paused(self) -> bool:
        return bool(self.pauses) and self.pauses[-1][1] is None

    def pause(self) -> None:
        """Let no probe fire until `resume`: the code is what it was. Counts stand, and the records that were made are
        still read. Raises GilkError; then nothing has changed.
        """
        if self.is_paused:
            return
        began = time.monotonic_ns() - self._zero
        self._switch(on=False)
        self.pauses.append((began, None))

    def resume(self) -> None:
        """Let the probes fire again. A call that was under way at one of the two ends of the pause has no time. Raises
        GilkError; then it is still paused.
        """
        if not self.is_paused:
            return
        for session in self.sessions:
            session.take()
            while session.waiting:
                self._keep(session.convert())
        self.latencies.forget_open()
        self._switch(on=True)
        self.pauses[-1] = self.pauses[-1][0], time.monotonic_ns() - self._zero

    def _switch(self, on: bool) -> None:
        """Make the probes of all sessions active or dormant, or raise GilkError, and leave them as they were."""
        done: list[ProbingSession] = []
        try:
            for session in self.sessions:
                if isinstance(session, ProbingSession):
                    (session.activate if on else session.deactivate)(session.probes)
                    done.append(session)
        except GilkError:
            for session in done:
                with contextlib.suppress(GilkError):  # its target may have ended, too
                    (session.deactivate if on else session.activate)(session.probes)
            raise

    @property
    def is_spent(self) -> bool:
        """Whether all instruments have been in and are out again, while their targets go on."""
        return False

    def _drain(self) -> float:
        """Drain as usual, but always convert some of the records, however fast they come: they are shown at once."""
        wait = super()._drain()
        for session in self.sessions:
            if session.waiting:
                self._keep(session.convert())
        return wait

    def _keep(self, table: pa.Table) -> None:
        """Keep what is shown of the records. Those of instruments in C have dozens of columns: these are cut first."""
        if not table.num_rows:
            return
        self.tally.add(table)
        own = pc.is_in(pc.cast(table["kind"], pa.string()), _OWN)
        self.latencies.add(table.select(_OF_CALLS).filter(pc.invert(own)) if pc.any(own).as_py() else table)
        mine = table.select([name for name in _SHOWN if name in table.column_names]).filter(own)
        for point in pc.unique(mine["point"]).to_pylist():
            if point in self._last or len(self._last) < _MOST_POINTS:
                self._keep_last(point, mine.filter(pc.equal(mine["point"], point)))

    def _keep_last(self, point: str, table: pa.Table) -> None:
        before = [self._last[point]] if point in self._last else []
        both = pa.concat_tables([*before, table[-_KEPT:]], promote_options="default")
        self._last[point] = both[-_KEPT:].combine_chunks()

    def _calls(self) -> CallTable | None:
        return None


@dataclass
class KernelLiveRun(KernelGuest, LiveRun):
    """A live run in a kernel that is there before it and after it."""

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common parts of sessions in any target: probes by number, their outcomes, and the samples."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from gilk.errors import UsageError
from gilk.session.request import Builtin, Wanted, WantedSite
from gilk.session.staging import Timed
from gilk.session.stream import RecordStream
from gilk.splice.plan import FunctionPlan, Refusal
from gilk.targets.base import Code
from gilk.targets.threads import Threads
from gilk.trace.clock import Clock
from gilk.trace.drain import RecordSource
from gilk.trace.probes import ProbeRow, RefusedPoint, counts_by_point, distinct_refusals
from gilk.trace.stacks import CountedStack
from gilk.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Probe:
    """One instrument at one point. ``tactic`` is None when it was refused, for the reason in ``refusal``."""

    number: int
    row: ProbeRow
    tactic: str | None = None
    refusal: Refusal | None = None

    def __repr__(self) -> str:
        outcome = self.tactic if self.tactic is not None else f"refused: {self.refusal}"
        return f"<Probe {self.row.point}={self.row.kind} {outcome}>"


@dataclass
class Totals:
    """Points asked for, seconds that changing the code took, and seconds of those that the threads stood still."""

    asked: int = 0
    activation: float = 0.0
    still: float = 0.0


_NAMED = 10  # points in a note


class BaseSession(ABC):
    """Use as a context manager; at its end all probes are gone from the target. probing.py has how they come in.

    ``capacity`` bounds how many probes there can be in all.
    """

    def __init__(self, drain: RecordSource, clock: Clock, threads: Threads, capacity: int) -> None:
        self._drain = drain
        self.clock = clock
        self._stream = RecordStream(drain, clock, threads)
        self._capacity = capacity
        self._probes: dict[int, Probe] = {}
        self._refused: dict[int, Refusal] = {}  # by number, also of probes that were taken out since
        self._unplanned: set[int] = set()  # numbers of probes that were refused from the first
        self._there: set[int] = set()  # numbers of probes that were in the target at some time
        self._everything: list[ProbeRow] = []
        self._tables: list[pa.Table] = []
        self.totals = Totals()
        self.restored: bool | None = None
        self.goes_on = False  # at the end: others have probes in the target still
        self.notes: list[str] = []  # once it is closed: what the user is to know besides
        self.closed = False

    def __repr__(self) -> str:
        state = "under way" if not self.closed else "restored" if self.restored else "ended"
        return f"<{type(self).__name__} {state}: {len(self._probes)} probes, {self.records} records>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def code(self) -> Code:
        """The target of the session, as code."""

    @abstractmethod
    def _restore(self) -> bool | None:
        """Take everything out of the target; whether all is as it was, None when that cannot be known."""

    @abstractmethod
    def _look_after(self) -> None:
        """Do the work that is due at every poll."""

    # Probes.

    @contextlib.contextmanager
    def _numbered(self, wanted: Sequence[Wanted | WantedSite]) -> Iterator[range]:
        """Numbers and rows for what is wanted, taken back if it cannot be put in. UsageError `too-many-points`."""
        numbers = self._number(wanted)
        try:
            yield numbers
        except BaseException:
            del self._everything[numbers.start :]
            raise

    def _number(self, wanted: Sequence[Wanted | WantedSite]) -> range:
        first = len(self._everything)
        if first + len(wanted) > self._capacity:
            raise UsageError(
                "too-many-points", f"more than {self._capacity} points", "ask for more with Session(points=...)"
            )
        self._everything += [self._row(first + n, w) for n, w in enumerate(wanted)]
        return range(first, len(self._everything))

    def _row(self, number: int, wanted: Wanted | WantedSite) -> ProbeRow:
        counts = wanted.instrument == Builtin.COUNT
        point = wanted.point
        return ProbeRow(
            0 if counts else number + 1, point.label, point.function, point.image, wanted.kind, number if counts else -1
        )

    def _now(self) -> int:
        """CLOCK_MONOTONIC, in ns, of the machine that the session is on."""
        return time.monotonic_ns()

    @cached_property
    def _ahead(self) -> int:
        """By how many ns CLOCK_MONOTONIC there is ahead of ours."""
        return 0

    @property
    def began(self) -> int:
        """Time 0 of the samples, in ns of our own CLOCK_MONOTONIC."""
        return self.start - self._ahead

    def align(self, zero: int, clock: Clock) -> None:
        """Put the samples on a time line that those of other sessions are on; before the first probe goes in.

        ``zero`` is its time 0, in ns of our CLOCK_MONOTONIC. ``clock`` is what they turn this machine's ticks into time
        by: two of them, measured apart, drift away from each other by some microseconds in a second.
        """
        if not self._ahead:
            self.clock = clock
        self._stream.align(zero + self._ahead, self.clock)

    def _know(self, seconds: float) -> None:
        """There are more probes, put in by a change that began ``seconds`` ago."""
        self._tables.append(self._stream.know(self._everything, self._now() - int(1e9 * seconds)))

    def _note(self, took: Timed, asked: int) -> None:
        self.totals.asked += asked
        self.totals.activation += took.total
        self.totals.still += took.seconds

    def _outcomes(self, plans: Iterable[FunctionPlan], numbers: Sequence[int]) -> tuple[Probe, ...]:
        """The probes with ``numbers``, and others that were planned again along with them."""
        plans = list(plans)
        tactics = {key: t for plan in plans for key, t in plan.tactics.items()}
        refusals = {key: r for plan in plans for key, r in plan.refusals.items()}
        return self._known_outcomes(tactics, refusals, numbers)

    def _known_outcomes(
        self, tactics: Mapping[int, str], refusals: Mapping[int, Refusal], numbers: Sequence[int]
    ) -> tuple[Probe, ...]:
        """By number, of those with ``numbers`` and of others that there are."""
        for number in {*numbers, *(tactics.keys() | refusals.keys()) & self._probes.keys()}:
            probe = Probe(number, self._everything[number], tactics.get(number), refusals.get(number))
            self._probes[number] = probe
            self._note_outcome(probe)
        return tuple(self._probes[number] for number in numbers)

    def _note_outcome(self, probe: Probe) -> None:
        if probe.refusal is None:
            self._there.add(probe.number)
            self._refused.pop(probe.number, None)
        else:
            self._refused[probe.number] = probe.refusal

    def _refuse_unplanned(self, wanted: Sequence[Wanted], numbers: range) -> tuple[Probe, ...]:
        """Note the refusals of those that were not planned; all probes with ``numbers``."""
        refused = {number: one.refusal for number, one in zip(numbers, wanted, strict=True) if one.refusal is not None}
        self._unplanned.update(refused)
        self._known_outcomes({}, refused, list(refused))
        return tuple(self._probes[number] for number in numbers)

    def _numbers(self, probes: Iterable[Probe]) -> list[int]:
        """The numbers of those that there are, and were planned."""
        there = self._probes.keys() - self._unplanned
        return [probe.number for probe in probes if probe.number in there]

    def _drop(self, numbers: Iterable[int]) -> None:
        """Forget probes."""
        for number in numbers:
            self._probes.pop(number, None)

    def tactics(self) -> dict[str, int]:
        """How many of the probes there are were put in by each tactic."""
        return dict(Counter(p.tactic for p in self._probes.values() if p.tactic is not None))

    def refusals(self) -> dict[str, int]:
        return dict(Counter(str(p.refusal) for p in self._probes.values() if p.refusal is not None))

    def refused_points(self) -> list[RefusedPoint]:
        """The points that could not be had, in the order in which they were asked for, each reason once."""
        return distinct_refusals((self._everything[n].point, why) for n, why in sorted(self._refused.items()))

    @property
    def probes(self) -> tuple[Probe, ...]:
        return tuple(self._probes.values())

    @property
    def rows(self) -> tuple[ProbeRow, ...]:
        """Every probe there is or has been."""
        return tuple(self._everything)

    # Results of probes.

    def poll(self) -> pa.Table:
        """Samples that have arrived since the last call; see trace.samples for the columns."""
        self._look_after()
        return self._gathered(self._stream.poll())

    def take(self) -> float:
        """Empty the buffers, for ``convert`` to make samples of later; how full, of 1, the fullest was."""
        self._look_after()
        return self._stream.take()

    def convert(self) -> pa.Table:
        """Samples of one ``take``, the oldest that waits."""
        return self._gathered(self._stream.convert())

    @property
    def waiting(self) -> int:
        """Bytes that were taken and not converted."""
        return self._stream.waiting

    def _gathered(self, latest: pa.Table) -> pa.Table:
        """With what was set aside when probes were added; older tables may lack columns."""
        import pyarrow as pa  # here: a session without samples need not wait for it

        tables, self._tables = [*self._tables, latest], []
        return pa.concat_tables(tables, promote_options="default").select(self.schema.names)

    @property
    def start(self) -> int:
        """Time 0 of the samples, in ns of CLOCK_MONOTONIC."""
        return self._stream.start

    @property
    def schema(self) -> pa.Schema:
        return self._stream.schema

    def counts(self) -> dict[str, int]:
        """Hits of every counting probe that was in the target, by the name of its point.

        A point that was refused is not among them: that nothing was counted there says nothing.
        """
        counters = self._drain.counts().tolist()
        never = self._refused.keys() - self._there
        there = [row for n, row in enumerate(self._everything) if n not in never] if never else self._everything
        unknown = set(self._uncounted())
        return counts_by_point([row for row in there if row.point not in unknown] if unknown else there, counters)

    def stacks(self) -> list[CountedStack]:
        """The stacks that were counted, with names. Costs much while the session lasts."""
        return []

    def _uncounted(self) -> list[str]:
        """The points whose counters say what cannot be."""
        unknown = self._drain.unknown
        if unknown is None:
            return []
        return [row.point for row in self._everything if row.counter >= 0 and unknown[row.counter]]

    def doubts(self) -> list[str]:
        """The figures of this session that are not known, because the program has written into gilk's memory; for the
        end."""
        found = [*self._drain.doubts]
        if points := self._uncounted():
            more = f" and {len(points) - _NAMED} more" if len(points) > _NAMED else ""
            found.append(f"the counts of {', '.join(points[:_NAMED])}{more}")
        if self._stream.impossible:
            found.append(f"what {self._stream.impossible} records were, which bear times that cannot be")
        return found

    @property
    def drain(self) -> RecordSource:
        """The buffers: drops, lost and nested hits, corrupt rings."""
        return self._drain

    @property
    def records(self) -> int:
        return self._stream.records

    def close(self) -> pa.Table:
        """Take everything out of the target; the samples that were left. ``restored`` says whether all is as it was."""
        if self.closed:
            return self._stream.schema.empty_table()
        self.end()
        return self._gathered(self._stream.finish())

    def end(self) -> None:
        """The same without samples."""
        if not self.closed:
            self.closed = True
            self.restored = self._restore()

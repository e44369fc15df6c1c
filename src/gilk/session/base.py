# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common parts of sessions in any target: probes by number, their outcomes, and the samples."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gilk.errors import GilkError, UsageError
from gilk.session.request import Builtin, Wanted, WantedSite, place_of
from gilk.session.staging import Timed
from gilk.session.stream import RecordStream
from gilk.splice.plan import FunctionPlan, Refusal
from gilk.targets.base import Code
from gilk.targets.threads import Threads
from gilk.trace.clock import Clock
from gilk.trace.drain import RecordSource
from gilk.trace.image_files import ImageFile
from gilk.trace.probes import ProbeRow, RefusedPoint, counts_by_point, distinct_refusals
from gilk.trace.stacks import CountedStack
from gilk.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Probe:
    """One instrument at one point. ``tactic`` is the name of its tactic, None if the probe was refused; ``refusal`` has
    the reason."""

    number: int
    row: ProbeRow
    tactic: str | None = None
    refusal: Refusal | None = None

    def __repr__(self) -> str:
        outcome = self.tactic if self.tactic is not None else f"refused: {self.refusal}"
        return f"<Probe {self.row.point}={self.row.kind} {outcome}>"


@dataclass
class Totals:
    """Totals of a session: points asked for, seconds that changing the code took, and for how many of these the threads
    were stopped."""

    asked: int = 0
    activation: float = 0.0
    still: float = 0.0


_NAMED = 10  # the most points that a note names


class BaseSession(ABC):
    """A set of probes in a target. Use it as a context manager; at its end all probes are gone from the target.

    ``capacity``: how many probes there can be in all. The subclasses in probing.py define how probes get in.
    """

    def __init__(self, drain: RecordSource, clock: Clock, threads: Threads, capacity: int) -> None:
        self._drain = drain
        self.clock = clock
        self._stream = RecordStream(drain, clock, threads)
        self._capacity = capacity
        self._probes: dict[int, Probe] = {}
        self._refused: dict[int, Refusal] = {}  # by number; has also refused probes that were removed since
        self._unknown: list[tuple[str, str]] = []  # arguments that are not recorded, each with the reason
        self._unplanned: set[int] = set()  # numbers of probes that were refused before planning
        self._there: set[int] = set()  # numbers of probes that were in the target at some time
        self._everything: list[ProbeRow] = []
        self._files: dict[str, Path] = {}  # by the name of an image
        self._tables: list[pa.Table] = []
        self.totals = Totals()
        self.restored: bool | None = None
        self.goes_on = False  # at the end: whether others have probes in the target still
        self.notes: list[str] = []  # once the session is closed: further remarks for the user
        self.closed = False
        self._all_read = False

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
        """The target of the session: a process or a kernel."""

    @abstractmethod
    def _restore(self) -> bool | None:
        """Take everything out of the target; returns whether all code is as it was, None if that cannot be known."""

    @abstractmethod
    def _look_after(self) -> None:
        """Do the work that is due at every poll."""

    # Probes.

    @contextlib.contextmanager
    def _numbered(self, wanted: Sequence[Wanted | WantedSite]) -> Iterator[range]:
        """A context with numbers and rows for the wanted probes; if it raises, they are taken back. Raises UsageError
        `too-many-points`."""
        told = len(self._unknown)
        numbers = self._number(wanted)
        try:
            yield numbers
        except BaseException:
            del self._everything[numbers.start :]
            del self._unknown[told:]
            raise

    def _number(self, wanted: Sequence[Wanted | WantedSite]) -> range:
        first = len(self._everything)
        if first + len(wanted) > self._capacity:
            raise UsageError(
                "too-many-points", f"more than {self._capacity} points", "ask for more with Session(points=...)"
            )
        self._everything += [self._row(first + n, w) for n, w in enumerate(wanted)]
        self._files |= {each.point.image: each.loaded.path for each in wanted}
        return range(first, len(self._everything))

    def _row(self, number: int, wanted: Wanted | WantedSite) -> ProbeRow:
        counts = wanted.instrument == Builtin.COUNT
        point = wanted.point
        given = wanted.arguments if isinstance(wanted, Wanted) and wanted.refusal is None else None
        for each in given or ():
            if each.why:
                self._unknown.append((f"{point.label}, argument {each.name or each.number}", each.why))
        known = 63 if given is None else sum(1 << n for each in given if each.place and (n := each.number) is not None)
        return ProbeRow(
            0 if counts else number + 1,
            *(point.label, point.function, point.image, wanted.kind, number if counts else -1, known),
            place_of(wanted),
        )

    def _now(self) -> int:
        """CLOCK_MONOTONIC, in ns, of the machine that has the target."""
        return time.monotonic_ns()

    @cached_property
    def _ahead(self) -> int:
        """How many ns CLOCK_MONOTONIC of the target's machine is ahead of that of this machine."""
        return 0

    @property
    def began(self) -> int:
        """Time 0 of the samples, in ns of this machine's CLOCK_MONOTONIC."""
        return self.start - self._ahead

    def align(self, zero: int, clock: Clock) -> None:
        """Put the samples on the time line of other sessions; call it before the first probe goes in.

        ``zero`` is time 0 of that line, in ns of this machine's CLOCK_MONOTONIC. ``clock`` is the clock by which the
        other sessions turn ticks of this machine into time: two clocks that were measured apart drift from each other
        by some microseconds in a second.
        """
        if not self._ahead:
            self.clock = clock
        self._stream.align(zero + self._ahead, self.clock)

    def _know(self, seconds: float) -> None:
        """Tell the stream of the new probes, which a change put in that began ``seconds`` ago."""
        self._tables.append(self._stream.know(self._everything, self._now() - int(1e9 * seconds)))

    def _note(self, took: Timed, asked: int) -> None:
        self.totals.asked += asked
        self.totals.activation += took.total
        self.totals.still += took.seconds

    def _outcomes(self, plans: Iterable[FunctionPlan], numbers: Sequence[int]) -> tuple[Probe, ...]:
        """Note the outcomes that plans tell; returns the probes with ``numbers``. Probes that were planned again along
        with them are noted, too."""
        plans = list(plans)
        tactics = {key: t for plan in plans for key, t in plan.tactics.items()}
        refusals = {key: r for plan in plans for key, r in plan.refusals.items()}
        return self._known_outcomes(tactics, refusals, numbers)

    def _known_outcomes(
        self, tactics: Mapping[int, str], refusals: Mapping[int, Refusal], numbers: Sequence[int]
    ) -> tuple[Probe, ...]:
        """Note outcomes: ``tactics`` and ``refusals`` by number. Returns the probes with ``numbers``, in their
        order."""
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
        """Note the refusals of the wanted probes that were not planned; returns all probes with ``numbers``."""
        refused = {number: one.refusal for number, one in zip(numbers, wanted, strict=True) if one.refusal is not None}
        self._unplanned.update(refused)
        self._known_outcomes({}, refused, list(refused))
        return tuple(self._probes[number] for number in numbers)

    def _numbers(self, probes: Iterable[Probe]) -> list[int]:
        """The numbers of those probes that the session still has, and that were planned."""
        there = self._probes.keys() - self._unplanned
        return [probe.number for probe in probes if probe.number in there]

    def _drop(self, numbers: Iterable[int]) -> None:
        """Forget the probes with these numbers."""
        for number in numbers:
            self._probes.pop(number, None)

    def tactics(self) -> dict[str, int]:
        """The number of probes that each tactic put in."""
        return dict(Counter(p.tactic for p in self._probes.values() if p.tactic is not None))

    def refusals(self) -> dict[str, int]:
        """The number of probes that were refused, by reason."""
        return dict(Counter(str(p.refusal) for p in self._probes.values() if p.refusal is not None))

    def refused_points(self) -> list[RefusedPoint]:
        """The points that were refused, in the order in which they were asked for, then the arguments at points; each
        with its reasons once."""
        points = ((self._everything[n].point, why) for n, why in sorted(self._refused.items()))
        return distinct_refusals((*points, *self._unknown))

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes that the session has, refused ones included."""
        return tuple(self._probes.values())

    @property
    def rows(self) -> tuple[ProbeRow, ...]:
        """The rows of all probes that the session has or has had."""
        return tuple(self._everything)

    @property
    def images(self) -> tuple[ImageFile, ...]:
        """The files of the images that have probes."""
        found = []
        for name, path in self._files.items():
            with contextlib.suppress(GilkError):  # it cannot be read any more: it has no lines then
                found.append(ImageFile(name, path, self.code.image(path).content.hex()))
        return tuple(found)

    # Results of probes.

    def poll(self) -> pa.Table:
        """The samples that have arrived since the last call; trace.samples describes the columns."""
        self._look_after()
        return self._gathered(self._stream.poll())

    def take(self) -> float:
        """Empty the buffers, and keep the records for ``convert``; returns how full the fullest buffer was, from 0 to
        1."""
        self._look_after()
        return self._stream.take()

    def convert(self) -> pa.Table:
        """The samples of the oldest ``take`` that was not converted yet."""
        return self._gathered(self._stream.convert())

    @property
    def waiting(self) -> int:
        """The bytes of records that were taken and not converted yet."""
        return self._stream.waiting

    def _gathered(self, latest: pa.Table) -> pa.Table:
        """The latest samples, after those that were set aside when probes were added. Older tables may lack columns."""
        import pyarrow as pa  # imported here: a session without samples need not wait for it

        tables, self._tables = [*self._tables, latest], []
        return pa.concat_tables(tables, promote_options="default").select(self.schema.names)

    @property
    def start(self) -> int:
        """Time 0 of the samples, in ns of CLOCK_MONOTONIC of the target's machine."""
        return self._stream.start

    @property
    def schema(self) -> pa.Schema:
        """The columns of the samples."""
        return self._stream.schema

    def counts(self) -> dict[str, int]:
        """The hits of every counting probe that has been in the target, by the name of its point.

        A point that was refused has no count, for nothing counted there.
        """
        counters = self._drain.counts().tolist()
        never = self._refused.keys() - self._there
        there = [row for n, row in enumerate(self._everything) if n not in never] if never else self._everything
        unknown = set(self._uncounted())
        return counts_by_point([row for row in there if row.point not in unknown] if unknown else there, counters)

    def stacks(self) -> list[CountedStack]:
        """The stacks that were counted, with the names of their frames. A call is costly while the session lasts."""
        return []

    def _uncounted(self) -> list[str]:
        """The points whose counters have impossible values."""
        unknown = self._drain.unknown
        if unknown is None:
            return []
        return [row.point for row in self._everything if row.counter >= 0 and unknown[row.counter]]

    def doubts(self) -> list[str]:
        """The figures of this session that cannot be trusted, because the program has written into gilk's memory; call
        it at the end."""
        found = [*self._drain.doubts]
        if points := self._uncounted():
            more = f" and {len(points) - _NAMED} more" if len(points) > _NAMED else ""
            found.append(f"the counts of {', '.join(points[:_NAMED])}{more}")
        if self._stream.impossible:
            found.append(f"what {self._stream.impossible} records were, which bear times that cannot be")
        return found

    @property
    def drain(self) -> RecordSource:
        """The source of the records, which also knows of drops, lost and nested hits, and corrupt rings."""
        return self._drain

    @property
    def records(self) -> int:
        """How many records have become samples so far."""
        return self._stream.records

    def close(self) -> pa.Table:
        """Take everything out of the target; returns the remaining samples. ``restored`` then says whether all code is
        as it was."""
        if self._all_read:
            return self._stream.schema.empty_table()
        self._all_read = True
        self.end()
        return self._gathered(self._stream.finish())

    def end(self) -> None:
        """The same as close(), but leaves the remaining samples to it."""
        if not self.closed:
            self.closed = True
            self.restored = self._restore()

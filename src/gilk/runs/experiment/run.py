# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs of experiments: instruments come and go at their times, and when a strategy has seen enough.

All points are found before anything runs, so that mistakes are told at once and the file's list of probes is complete
from the beginning; probes are put in when their time has come. Times are kept to within a millisecond, unless an
earlier change takes longer.
"""

from __future__ import annotations

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gilk.errors import GilkError
from gilk.image import lookup
from gilk.runs import strategy
from gilk.runs.elsewhere import Elsewhere
from gilk.runs.experiment.items import Deployment, Item, ItemState, refused_points, title
from gilk.runs.experiment.told import edges, take_hit, with_edges
from gilk.runs.experiment.workload import Workload
from gilk.runs.instruments import RING
from gilk.runs.outcome import Result
from gilk.runs.progress import Progress
from gilk.runs.run import KERNEL_RING, Run
from gilk.runs.sample_columns import schema_of, writer
from gilk.runs.strategy import Chosen
from gilk.session.broker.client_session import ClientSession
from gilk.session.broker.opened import remarks_unseen
from gilk.session.kernel_session import KernelSession
from gilk.session.libraries import Arrivals
from gilk.session.probing import ProbingSession
from gilk.session.request import Request, Wanted, without_instances
from gilk.spec.point import Spec
from gilk.targets import wire
from gilk.targets.base import Code, Loaded
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.process import Process
from gilk.values import dataclass

_SOON = 0.05  # seconds; a change that is due within them is waited for
_REST = 9  # watching for first hits may take one part in this many plus one of the time


Meant = list[tuple[Item, list[Wanted]]]


@dataclass
class Staged(Run):
    """A run with ``items`` in place of ``requests``. ``names``: by pid, the name that items' ``only`` may match.

    ``unattended``: the run has its own end, so that a stop before that cuts it short.
    """

    items: list[Item] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    workload: Workload | None = None
    unattended: bool = False
    interrupted: bool = False
    placed: list[Deployment] = field(default_factory=list)
    _released: int = 0
    _finishing: int = 0
    _watch_again: float = 0.0
    _of: dict[int, ProbingSession] = field(default_factory=dict)  # by pid, 0 for the kernel
    _left: set[int] = field(default_factory=set)
    _arrivals: dict[int, Arrivals] = field(default_factory=dict)  # by pid, of libraries, which get no instruments

    def begin(self, planning: AbstractContextManager[None] | None = None) -> None:
        self._zero, self.tells_of_unseen = time.monotonic_ns(), False  # a workload may start other programs
        super().begin(planning)
        self._began = time.monotonic()
        self._released = time.monotonic_ns() - self._zero
        if self.workload is not None:
            try:
                self.workload.start()
            except BaseException:
                self.abort()
                raise

    def _insert(self) -> None:
        """Find all points, and put in what is due at the start: processes first, then the kernel, as in a plain run."""
        for process in self.processes if any(not item.of_kernel for item in self.items) else ():
            self._arrivals[process.pid] = Arrivals(process, process.loaded())
            meant = self._meant(process, process.pid)
            self._prepare(meant, process.pid, ClientSession(process, _capacity(meant), ring=RING))
        if self.kernel is not None:
            meant = self._meant(self.kernel, 0)
            self._prepare(meant, 0, KernelSession(self.kernel, _capacity(meant), KERNEL_RING, self.flight))
        self._kept.schema = schema_of(w.kind for placed in self.placed for w in placed.wanted)
        self._change(0.0, first=True)

    def _withdraw(self) -> None:
        began = self._zero
        super()._withdraw()
        self._zero = began
        self.placed, self._of, self._arrivals = [], {}, {}

    def _meant(self, target: Code, pid: int) -> Meant:
        """The instruments for a target, each with its points, in order of time."""
        items = sorted((item for item in self.items if self._is_for(item, pid)), key=lambda item: item.start)
        meant = [(item, _points(target, item)) for item in items]
        for item, wanted in meant if pid else ():
            asked = item.wanted
            names = without_instances([asked]) if isinstance(asked, Request) else [asked.spec.function]
            self.asked.note(target, names, ((w.loaded, w.function) for w in wanted))
        return meant

    def _prepare(self, meant: Meant, pid: int, session: ProbingSession) -> None:
        session.align(self._zero, (self.sessions[0] if self.sessions else session).clock)
        name = self.names.get(pid) or (f"process {pid}" if pid else "the kernel")
        self.sessions.append(session)
        self._of[pid] = session
        self.placed += [Deployment(item, session, pid, name, wanted) for item, wanted in meant]

    def _is_for(self, item: Item, pid: int) -> bool:
        """Whether the item is for the target; ``pid`` 0 is the kernel."""
        if item.of_kernel or not pid:
            return item.of_kernel and not pid
        name = self.names.get(pid, "")
        return not item.only or any(fnmatch.fnmatchcase(name, glob) for glob in item.only)

    def _open(self) -> None:
        if self.output is not None:
            wanted = [[w for p in self.placed if p.session is s for w in p.wanted] for s in self.sessions]
            first, pids = self.sessions[0], tuple(p.pid for p in self.processes)
            self._kept.writer = writer(
                self.output, self._kept.schema, self.command, pids, self._zero, first.clock, wanted
            )  # fmt: skip

    def wait(self, seconds: float | None, stop: Callable[[], bool], show: Callable[[Progress], None]) -> None:
        def over() -> bool:
            self.interrupted = stop()
            return self.interrupted or self._advance()

        super().wait(seconds, over, show)

    # Duties between two looks at the buffers.

    def _advance(self) -> bool:
        """Do what is due; returns whether there is nothing left to wait for."""
        self._change(time.monotonic() - self._began)
        soon = min((p.due for p in self.placed if p.due is not None), default=None)
        rest = soon - (time.monotonic() - self._began) if soon is not None else _SOON
        if 0 < rest < _SOON:
            time.sleep(rest)
            self._change(time.monotonic() - self._began)
        self._watch()
        if self.workload is not None:
            return self.workload.over()
        if any(process.launched for process in self.processes) or (self.elsewhere is not None and self.command):
            return False  # the run ends when they do
        return soon is None and self._all_out()

    def _all_out(self) -> bool:
        return not any(placed.state is ItemState.IN for placed in self.placed)

    def _change(self, now: float, first: bool = False) -> None:
        for placed in self.placed:
            if not self._is_due(placed, now):
                continue
            if placed.pid in self._presence.ended:
                placed.ended(self._since(time.monotonic_ns()))
                continue
            began = time.monotonic_ns()
            try:
                self._put_in(placed) if placed.state is ItemState.WAITING else self._take_out(placed)
            except GilkError as error:
                if first:
                    raise
                self._failed(placed, began, error)

    def _is_due(self, placed: Deployment, now: float) -> bool:
        """Whether an instrument is to be put in, or taken out, ``now`` seconds after the start."""
        return placed.due is not None and placed.due <= now

    def _put_in(self, placed: Deployment) -> None:
        began = time.monotonic_ns()
        placed.probes = placed.session.insert_wanted(placed.wanted)
        placed.present = {probe.number for probe in placed.probes}
        placed.state, placed.went_in = ItemState.IN, self._since(began)

    def _take_out(self, placed: Deployment) -> None:
        began = time.monotonic_ns()
        placed.session.remove(p for p in placed.probes if p.number in placed.present)
        placed.present.clear()
        placed.state, placed.went_out = ItemState.OUT, self._since(began)

    def _failed(self, placed: Deployment, began: int, error: GilkError) -> None:
        """Note a failed change. If the target has just ended, that is no error: its instruments went with it."""
        if placed.state is ItemState.WAITING:
            placed.failure = str(error)
        placed.ended(self._since(began))
        if error.slug not in ("no-such-process", "keeper-gone"):
            placed.failure, self.partial = str(error), True
            self.notes.append(f"{placed.item.name}: {error}")

    def _since(self, began: int) -> tuple[int, int]:
        return began - self._zero, time.monotonic_ns() - self._zero

    def _watch(self) -> None:
        """Take out the hit probes of strategies that want each point only once."""
        began = time.monotonic()
        if began < self._watch_again:
            return
        for placed in self.placed:
            if placed.state is ItemState.IN and placed.item.once and placed.pid not in self._presence.ended:
                change = time.monotonic_ns()
                try:
                    self.notes += take_hit(placed, self._zero)
                except GilkError as error:
                    self._failed(placed, change, error)
        self._watch_again = time.monotonic() + _REST * (time.monotonic() - began)

    def _drain(self) -> float:
        """Drain as in a plain run, but notice the end of a pipeline's program at once, since its neighbours wait for
        it."""
        rest = super()._drain()
        if self.workload is None or not self.workload.running or not rest:
            return rest
        if wire.ready(self.workload.running, seconds=rest)[0]:
            self._look()
        return 0.0

    def _look(self) -> None:
        super()._look()
        for pid in self._arrivals.keys() - self._presence.ended:
            self._arrivals[pid].look()
        for process in self.processes:
            if process.pid in self._presence.ended - self._left:
                self._left.add(process.pid)
                self._let_go(process)

    def _let_go(self, process: Process) -> None:
        """Close the session of a process that has ended, and its keeper, which holds ends of its pipes: the neighbours
        wait for these to close."""
        began = time.monotonic_ns()
        if process.pid in self._of:
            self._keep(self._closed(self._of[process.pid]))
        for placed in self.placed:
            if placed.pid == process.pid:
                placed.ended(self._since(began))
        if self.workload is not None and process.launched:
            self.workload.ended(process)
            process.keeper.leave()

    def _closed(self, session: ProbingSession) -> pa.Table:
        try:
            return session.close()
        except GilkError as error:
            self.notes.append(f"{session.code.who}: {error}")
            return self._kept.schema.empty_table()

    # The result.

    def take_out(self) -> bool | None:
        if self.interrupted and self.unattended:
            self.partial = True
            self.notes.append(f"interrupted after {time.monotonic() - self._began:.1f} s")
        self._finishing = time.monotonic_ns()
        self._name_unseen_libraries()
        restored = super().take_out()
        if self.workload is not None:
            self.workload.end()
        return restored

    def _name_unseen_libraries(self) -> None:
        """Note libraries with points that were opened after points were found."""
        specs = [item.wanted.spec for item in self.items if not item.of_kernel and item.wanted.spec.image]
        for process in self.processes:
            arrivals = self._arrivals.get(process.pid)
            if arrivals is None:
                continue
            if process.pid not in self._presence.ended:
                arrivals.look(at_last=True)
            unseen = [loaded for loaded in arrivals.unseen if any(_has(process, loaded, spec) for spec in specs)]
            self.partial |= bool(unseen)
            self.notes += remarks_unseen(unseen)

    def _result(self) -> Result:
        """The result for all probes that were ever in, not only for those that are in at the end as in a plain run."""
        for placed in self.placed:
            placed.ended(self._since(self._finishing))
        result = super()._result()
        every = [probe for placed in self.placed for probe in placed.probes]
        result.tactics = dict(Counter(str(p.tactic) for p in every if p.tactic is not None))
        result.refusals = dict(Counter(str(p.refusal) for p in every if p.refusal is not None))
        result.refused_points = refused_points(every)
        result.numbers = self._numbers(result.tactics, result.refusals)
        result.counts, notes = with_edges(result.counts, self.placed)
        self.notes += notes
        return result

    def happened(self) -> dict[str, Any]:
        """The times and outcomes of all instruments, as JSON values. `began`: when the targets were let go, in ns as in
        `time`."""
        return {
            "began": self._released,
            "instruments": [placed.to_json() for placed in self.placed],
            "edges": edges(self.placed),
        }

    def _described(self) -> None:
        """None: the description was complete when the file was opened."""

    def _report(self) -> dict[str, Any]:
        return {"notes": self.notes, "experiment": self.happened()}

    def abort(self) -> None:
        super().abort()
        if self.workload is not None:
            self.workload.end()


def of_requests(
    processes: list[Process], wanted: Sequence[Request | Chosen], output: Path | None, command: tuple[str, ...],
    kernel: KernelTarget | None, elsewhere: Elsewhere | None = None, flight: bool = False,
) -> Staged:  # fmt: skip
    """The run that `gilk run` makes if a strategy is among the requests: all instruments are in from the start to the
    end."""
    items = [Item(each, title(each)) for each in wanted]
    return Staged(processes, [], output, command, kernel, elsewhere, flight, items=items)


def _points(target: Code, item: Item) -> list[Wanted]:
    """The points of an item. Raises as `strategy.expand`, with the item's name in the message."""
    try:
        return list(strategy.expand(target, item.wanted))
    except GilkError as error:
        raise type(error)(error.slug, f"{item.name}: {error.message}", error.hint) from error


def _capacity(meant: Meant) -> int:
    return max(sum(len(wanted) for _, wanted in meant), 1)


def _has(process: Process, loaded: Loaded, spec: Spec) -> bool:
    """Whether a library, which may be closed by now, has functions that are meant; True if that is not known."""
    try:
        return loaded.is_meant(spec.image) and bool(lookup.matching(process.image(loaded.path), spec.function))
    except (GilkError, OSError):
        return True

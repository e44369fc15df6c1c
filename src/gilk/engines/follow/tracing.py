# SPDX-License-Identifier: LGPL-2.1-or-later
"""The second part of ``gilk trace``: wait for an event, follow all calls, and stop at another event.

All that can be done beforehand has been done while the program runs undisturbed: functions are found and patches are
written. The first event only activates them (sptracer.txt 4.2: analysis in advance, activation on demand).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from gilk import activity
from gilk.engines.follow.after import After
from gilk.engines.follow.base import BaseFollower
from gilk.engines.follow.ready import START, STOP, ReadyTrace
from gilk.engines.follow.refused import ENTRIES, stripped
from gilk.engines.follow.watch import Watch
from gilk.errors import GilkError
from gilk.runs.outcome import Result
from gilk.runs.progress import Progress, SumTell, in_silence
from gilk.session.broker.opened import remarks_unseen
from gilk.session.libraries import Libraries
from gilk.spec.event import Elapsed, Exit, Reach
from gilk.spec.functions import FunctionPattern
from gilk.targets.ended import unless_ended
from gilk.targets.inlined_everywhere import remark
from gilk.trace import flow_build
from gilk.trace.about import Tally
from gilk.trace.flow import KERNEL, Flow
from gilk.trace.flow_summary import FlowSummary, summary
from gilk.trace.gates import Reached
from gilk.trace.traced import NEVER, Omitted, TraceDescription
from gilk.values import dataclass

_TICK = 0.02
_APART = 1_000_000  # ns; the times of records and of this process agree better than this


@dataclass
class Tracing(ReadyTrace):
    """A trace under way, of one or several processes."""

    omitted: list[Omitted] = field(default_factory=list)
    activation_ms: float = 0.0
    _held: int = 0  # ns that opening libraries took longer, in processes that are followed no more
    _recorded: int = 0
    _dropped_before: int = 0  # records dropped before the trace
    _after: After = field(default_factory=After)
    _began_trace: float = 0.0
    _met: set[FunctionPattern] = field(default_factory=set)  # the globs of the scope that have had functions

    @property
    def _sees_all(self) -> str:
        return "gilk trace --follow"

    def _wait(self, seconds: float | None, stop: Callable[[], bool], show: Callable[[Progress], None]) -> None:
        """Wait for the stopping event, the end of every process, or ``stop``."""
        looked = 0.0
        while not stop() and not self._over():
            if self.started == NEVER:
                if self._await(self._watches[0], self._began, _TICK):
                    self._follow()
                self._drain()
            elif self._await(self._watches[1], self._since(), self._drain_and_adapt()):
                self._halt()
                return
            for libraries in self._libraries:
                with unless_ended():
                    libraries.look()
            if time.monotonic() - looked >= _TICK:
                looked = time.monotonic()
                self._look()
                show(self.progress())

    def _await(self, watch: Watch, since: float, patience: float) -> bool:
        """Wait up to ``patience`` seconds for an event; returns whether it has come. ``since``: when the time of
        `after:` or `for:` begins to count."""
        return watch.come(self._followers, since, patience)

    def _since(self) -> float:
        """When the time of the stopping event begins to count."""
        before = isinstance(self.stop, Elapsed) and not self.stop.since_start
        return self._began if before else self._began_trace

    def _drain_and_adapt(self) -> float:
        """Drain, and leave out what is called too often; returns the seconds to wait until the next time."""
        pause = min(self._drain(), _TICK)
        for throttle in self._throttles.values():
            throttle.count()
            with unless_ended():
                self.omitted += throttle.adapt(self._now())
            pause = min(pause, throttle.patience)
        return pause

    def _follow(self) -> None:
        """Follow, because the starting event has come."""
        reached = self._watches[0].reached
        for session in self.sessions:  # a function with a gate has been recorded all the time: make room for the trace
            session.take()
        self._dropped_before = sum(session.drain.drops() for session in self.sessions)
        before, began = self._now(), time.perf_counter()
        for follower in self._followers:
            with unless_ended():
                if follower.expects:
                    follower.begin()
                else:
                    follower.follow(self._chosen(follower))
        if self._in_kernel is not None:
            self._in_kernel.record(True)
        self.activation_ms = 1000 * (time.perf_counter() - began)
        # The thread at the gate has done nothing until now, however long all this took.
        self.started = before if reached is None else max(self._time_of(*reached), self._now() - _APART)
        if isinstance(self.stop, Reach):
            for follower in self._followers:
                follower.gates.arm(STOP, self.stop.hits)
        for follower in self._followers:
            follower.gates.open(START)
        for throttle in self._throttles.values():
            self.omitted += throttle.begin(self.started)
        for libraries in self._libraries:
            libraries.held = 0
        self._began_trace = time.monotonic()

    def _about_to_release(self) -> None:
        """Begin the trace here: the time in which a launched program was held is no part of it, nor of its calls."""
        if self.started != NEVER and any(process.stands for process in self.processes):
            self.started, self._began_trace = self._now(), time.monotonic()

    def _look_for_stop(self) -> None:
        """Note the time when a thread reached the stopping function, if one has."""
        passed = self._watches[1].passed(self._followers) if self.started != NEVER and self.stopped == NEVER else None
        if passed is not None:
            self.stopped = self._time_of(*passed)

    def _halt(self) -> None:
        """Stop following, because the stopping event has come."""
        reached = self._watches[1].reached
        if reached is not None:
            self.stopped = self._time_of(*reached)
        elif isinstance(self.stop, Elapsed) and self.stop.since_start:
            self.stopped = self.started + int(1e9 * self.stop.seconds)  # not the time when it was noticed
        else:
            self.stopped = self._now()
        self._hurry()
        if self._in_kernel is not None:
            self._in_kernel.record(False)
        for follower in self._followers:
            with unless_ended():
                follower.leave()

    def _now(self) -> int:
        return time.monotonic_ns() - self._zero

    def _time_of(self, follower: BaseFollower, reached: Reached) -> int:
        return int(follower.clock.to_ns(np.array([reached.tsc], np.uint64))[0]) - self._zero

    def _keep(self, table: pa.Table) -> None:
        """Keep the records of ``table`` that were made within the trace."""
        if self.started == NEVER or not table.num_rows:
            return
        self._look_for_stop()  # these records may be later than the stopping event, which may not have been noticed yet
        times = table["time"].to_numpy()
        inside = times >= self.started
        if self.stopped != NEVER:
            inside &= times <= self.stopped
            self._after.look(table, times > self.stopped)
        if self._relay:
            inside &= table["pid"].to_numpy() != self._relay
        table = table if inside.all() else table.filter(pa.array(inside))
        self._recorded += table.num_rows
        super()._keep(table)

    def _numbers(self, tactics: dict[str, int], refusals: dict[str, int]) -> dict[str, Any]:
        """The numbers of the report; records, and dropped records, count only within the trace."""
        numbers = super()._numbers(tactics, refusals)
        after = self._after.dropped(tails for session in self.sessions for tails in session.drain.tails().items())
        drops = max(numbers["drops"] - self._dropped_before - after, 0)
        return numbers | {"records": self._recorded, "drops": drops}

    def progress(self) -> Progress:
        state = super().progress()
        state.what = f"waiting for {self.start.text}" if self.started == NEVER else "following"
        if self._is_empty:
            state.what = f"waiting for a library that is in the scope {self.scope}"
        return state

    # The end.

    def take_out(self) -> bool | None:
        self._look_for_stop()  # before the gates open; the program may have ended since
        self._look_for_exit()
        for watch in self._watches:
            watch.close()
        for follower in self._followers:
            follower.gates.open_all()
        held = self._held + sum(libraries.held for libraries in self._libraries)
        if self.started != NEVER and held:
            self.notes.append(
                f"the program was held for {held / 1e6:.0f} ms, while libraries that it opened were made ready: calls"
                " that opened them seem to take that much longer"
            )
        self._name_unseen_libraries()
        return super().take_out()

    def sum_up(self, tell: SumTell = in_silence) -> Result:
        tell("naming functions that were not followed", False)
        self._name_what_is_missing()
        result = super().sum_up(tell)
        self._check_scope(False)
        return result

    def _look_for_exit(self) -> None:
        """Note when all processes had ended, if that stops the trace."""
        if isinstance(self.stop, Exit) and self.started != NEVER and self.stopped == NEVER and self._over():
            self.stopped = self._now()

    def _name_unseen_libraries(self) -> None:
        """Note libraries that were opened where no thread could be held."""
        for libraries in self._libraries:
            self._name_unseen(libraries)

    def _name_unseen(self, libraries: Libraries) -> None:
        libraries.look_last()
        unseen = [loaded for loaded in libraries.arrivals.unseen if self.scope.takes_image(loaded)]
        remarks = remarks_unseen(unseen, libraries.hindrance)
        self.notes += remarks
        self.partial |= bool(remarks)

    def _close_file(self, result: Result, duration: int) -> None:
        """Close the file; if nothing came into the scope, the trace is refused, and its file is removed."""
        if self._kept.writer is not None and self._is_empty:
            self._kept.writer.remove()
        else:
            super()._close_file(result, duration)

    def _name_what_is_missing(self) -> None:
        """Note the functions whose calls, or whose returns, are missing."""
        for follower in self._followers:
            self._name_missing(follower)
        self.notes += stripped(self._followers)
        self._name_unmet()
        self._name_inlined()

    def _name_unmet(self) -> None:
        """Note the globs of the scope that have had no function, in any program or library that was seen."""
        unmet = [str(each) for each in self.scope.included if each not in self._met]
        self.notes += [f"no function was in the scope {', '.join(unmet)}"] * bool(unmet)

    def _name_inlined(self) -> None:
        """Note the functions that have no calls because they are inlined everywhere: those of the main program, or of
        the images in the scope, if the trace has one."""
        images = dict.fromkeys(
            loaded for follower in self._followers for loaded, names in follower.names
            if names and (loaded.main or str(self.scope))
        )  # fmt: skip
        self.notes += [note for loaded in images for note in remark(loaded.name, loaded.path)]

    def _name_missing(self, follower: BaseFollower) -> None:
        self._met |= follower.met
        try:
            self.unfollowed = list(dict.fromkeys([*self.unfollowed, *follower.unfollowed()]))
        except GilkError as error:  # of the analysis that finds the callers
            self.notes.append(f"{follower.code.who}: functions that are not followed cannot be named: {error}")
        self.unended = list(dict.fromkeys([*self.unended, *follower.unended()]))

    def traced(self) -> TraceDescription:
        """The trace's description of itself."""
        events = self.start.text, self.stop.text
        ended = self.stopped != NEVER  # a function that was left out after the end was followed to the end
        omitted = tuple(each for each in self.omitted if not ended or each.from_ns < self.stopped)
        missing = tuple(self.unfollowed), tuple(self.unended)
        return TraceDescription(self.started, self.stopped, *events, str(self.scope), omitted, self.depth, *missing)

    def _traced(self) -> TraceDescription:
        return self.traced()

    def _calls(self) -> None:
        """None: a trace shows the flow of calls, not histograms of functions."""

    def keep_in_file_only(self) -> None:
        """Keep no samples in memory; call it before the trace begins. `flow` then knows of none."""
        self._kept.most = 0

    def flow(self) -> Flow | None:
        """All calls, as a tree; None if nothing was recorded."""
        table = self._kept.table()
        return None if table is None else flow_build.build(table, self._about(), Tally(trace=self.traced()))

    def summary(self) -> FlowSummary:
        """The numbers of calls and threads of the flow, which need not be made for that."""
        table = self._kept.table()
        if table is None:
            return FlowSummary({}, 0)

        def tell(done: int) -> None:
            activity.tell("summing up", done, table.num_rows, "records")

        return summary(table, self._about(), Tally(trace=self.traced()), tell)

    @property
    def window(self) -> tuple[int, int]:
        """The beginning and the end of the trace, in ns of CLOCK_MONOTONIC; an event that has not come is before
        everything."""
        return self._zero + self.started, self._zero + self.stopped

    @property
    def functions(self) -> int:
        """How many functions were made ready."""
        kernel = self._in_kernel.rows if self._in_kernel is not None else ()
        return sum(follower.functions for follower in self._followers) + sum(row.kind in ENTRIES for row in kernel)

    @property
    def refused(self) -> int:
        """How many functions cannot be followed."""
        kernel = {(each.function, each.reason) for each in self.unfollowed if each.image == KERNEL}
        return sum(follower.unfit for follower in self._followers) + len(kernel)

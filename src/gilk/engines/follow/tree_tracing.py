# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces with ``gilk trace --follow``: one trace of processes and of all that they start."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial

import numpy as np

from gilk.engines.follow.client import ClientFollower
from gilk.engines.follow.refused import stripped
from gilk.engines.follow.tracing import Tracing
from gilk.engines.follow.watch import Watch
from gilk.errors import GilkError
from gilk.runs.outcome import Result
from gilk.runs.sample_columns import schema_of
from gilk.runs.tree_run import FollowedProgram, TreeRun
from gilk.session.libraries import Libraries
from gilk.spec.event import Now
from gilk.targets.maps import program_of
from gilk.targets.process import Process
from gilk.targets.threads import OwnThreads, ThreadsOfProgram
from gilk.targets.tree import Executed
from gilk.targets.tree_client import TreeClient
from gilk.trace import clock, executed
from gilk.trace.about import About
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.trace.traced import NEVER, Omitted, TraceDescription
from gilk.values import dataclass

_KINDS = (RecordKind.ENTRY, RecordKind.HEAD, RecordKind.RETURN)


@dataclass
class TreeTracing(TreeRun, Tracing):
    """A trace of a tree of processes. A program without functions in the scope has no follower, and runs on at once."""

    _watched: dict[int, Libraries] = field(default_factory=dict)  # by id of a follower
    _newest: dict[int, FollowedProgram] = field(default_factory=dict)  # by pid, the program that it runs now
    _rows: dict[tuple[str, str], ProbeRow] = field(default_factory=dict)  # by point and kind, of ended programs
    _over_functions: int = 0  # functions that were ready in programs that have ended
    _over_unfit: int = 0
    _named: dict[str, set[str]] = field(default_factory=dict)  # by name, the paths of programs

    def _insert(self) -> None:
        self._watches = [Watch(self.start, 0), Watch(self.stop, 1)]
        self._kept.schema = schema_of(_KINDS)
        self._zero = time.monotonic_ns()
        self._follow_all()
        for process in self.processes:
            with self._unless_ended(process):
                self._enter_program(self._programs[process.pid, 0], process)
        if isinstance(self.start, Now) and any(process.stands for process in self.processes):
            self._follow()

    def _withdraw(self) -> None:
        super()._withdraw()
        self._watched, self._newest, self._rows, self._named = {}, {}, {}, {}
        self._zero = time.monotonic_ns()

    def _make_ready(self, program: FollowedProgram, process: Process) -> None:
        self._enter_program(program, process)

    def _enter_program(self, program: FollowedProgram, process: Process) -> None:
        """Make the functions of a program ready, and follow them if the trace has begun. Raises GilkError."""
        self._newest[process.pid] = program
        images = process.loaded()
        self._named.setdefault(program.outcome().name, set()).add(program.path)
        in_scope = any(self.scope.starts(loaded, process.image(loaded.path)) for loaded in images)
        if not in_scope and not self.scope.awaits(images):
            return
        name, has_another = process.threads.name(process.pid, process.pid), partial(self._has_another, program)
        follower = self._take_in_follower(process)
        follower.name_threads_by(lambda threads: ThreadsOfProgram(threads, name, has_another))
        program.sessions.append(follower)
        follower.align(self._zero, self.clock)
        self._prepare(follower, images)
        self._watched[id(follower)] = self._watch_for_libraries(follower, images)
        if self.started != NEVER:
            self._begin_throttle(follower)
        elif not (process.stands and isinstance(self.start, Now)):
            self._expect(follower)

    def _has_another(self, program: FollowedProgram, pid: int) -> bool:
        return self._newest.get(pid, program) is not program

    def _begin_throttle(self, follower: ClientFollower) -> None:
        if (throttle := self._throttles.get(id(follower))) is not None:
            self.omitted += throttle.begin(self._now())

    def _await(self, watch: Watch, since: float, patience: float) -> bool:
        """Wait for an event; news of programs, which wait meanwhile, are handled first."""
        self._rest(patience)
        return watch.come(self._followers, since, 0.0)

    # Programs that begin and end.

    def _begun(self, root: int, tree: TreeClient, news: Executed) -> None:
        self._mark(news.pid, program_of(news.pid))
        super()._begun(root, tree, news)
        self._newest[news.pid] = self._programs[root, news.program]

    def _mark(self, pid: int, path: str) -> None:
        """Put a mark into the trace: a process executes another program, or has ended, so that no open call of it goes
        on."""
        tsc = np.array([clock.sample()[0]], np.uint64)
        when = int(self.clock.to_ns(tsc)[0]) - self._zero
        name = OwnThreads().name(pid, pid) if path else ""
        self._keep(executed.mark(when, pid, name, path))

    def _over_with(self, program: FollowedProgram | None) -> None:
        super()._over_with(program)
        if program is None:
            return
        for follower in _followers(program):  # a process that the trace began with: its records are still read
            self._follow_no_more(follower)
        if self._newest.get(program.pid) is program:
            self._drain()
            self._mark(program.pid, "")

    def _forget(self, program: FollowedProgram) -> None:
        for follower in _followers(program):
            self._follow_no_more(follower)
        super()._forget(program)
        for row in (row for part in program.past for row in part.rows):
            if (row.point, row.kind) not in self._rows:  # a library's rows are kept once, whichever program had it
                self._rows[row.point, row.kind] = replace(row, iid=0)
        program.past = [replace(part, rows=()) for part in program.past]

    def _follow_no_more(self, follower: ClientFollower) -> None:
        """Remove the follower of a program that has ended, or is not followed after all."""
        if follower not in self._followers:
            return
        self._followers.remove(follower)
        self._throttles.pop(id(follower), None)
        with contextlib.suppress(GilkError):
            follower.gates.open_all()
        if (libraries := self._watched.pop(id(follower), None)) is not None:
            self._name_unseen(libraries)
            self._libraries.remove(libraries)
            self._held += libraries.held
        self._name_missing(follower)
        self.notes += [note for note in stripped([follower]) if note not in self.notes]
        self._over_functions += follower.functions
        self._over_unfit += follower.unfit

    # The report.

    @property
    def _is_empty(self) -> bool:
        return not self.functions

    @property
    def functions(self) -> int:
        return self._over_functions + sum(follower.functions for follower in self._followers)

    @property
    def refused(self) -> int:
        return self._over_unfit + sum(follower.unfit for follower in self._followers)

    def traced(self) -> TraceDescription:
        """The description; a function that several processes left out is in it once, with the earliest time."""
        made, once = super().traced(), dict[tuple[str, str], Omitted]()
        for one in sorted(made.omitted, key=lambda one: one.from_ns):
            first = once.setdefault((one.function, one.image), one)
            if first is not one:
                once[one.function, one.image] = replace(first, calls=first.calls + one.calls)
        return replace(made, omitted=tuple(once.values()))

    def _about(self) -> About:
        """The file's description. ``pids`` has only the first processes: in later ones, no call was open when they
        began."""
        about = super()._about()
        return replace(about, probes=(*self._rows.values(), *about.probes), pids=tuple(self._trees))

    def take_out(self) -> bool | None:
        self._look_for_exit()  # before the trees are closed
        return super().take_out()

    def _result(self) -> Result:
        result = super()._result()
        missed = [one for one in result.programs if one.slug]
        result.partial |= bool(missed)
        same = {name: paths for name, paths in self._named.items() if len(paths) > 1}
        for name, paths in same.items():
            result.notes.append(f"{len(paths)} programs are called {name} here: {', '.join(sorted(paths))}")
        return result


def _followers(program: FollowedProgram) -> Iterator[ClientFollower]:
    return (session for session in program.sessions if isinstance(session, ClientFollower))

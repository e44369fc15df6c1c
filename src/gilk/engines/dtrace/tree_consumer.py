# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program's session over a tree of processes: each program that one of them executes gets the probes before its
first instruction, and is let go when no process runs it any more."""

from __future__ import annotations

import contextlib
import time
from dataclasses import field
from functools import partial

from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.consumer import Consumer, joined
from gilk.engines.dtrace.enabling import Enabled, enable
from gilk.engines.dtrace.opened import patterns
from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.tree_engine import TreeEngine
from gilk.errors import GilkError, UsageError
from gilk.lang.d import tree
from gilk.lang.d.probes import Description, DProbe
from gilk.session.broker.library_watch import may_come
from gilk.targets import startup, wire
from gilk.targets.maps import program_of
from gilk.targets.process import Process
from gilk.targets.tree import Executed, ProgramEnded, ProgramsPassed, TreeEnded
from gilk.targets.tree_client import TreeClient, at_work, left_unseen, passed
from gilk.values import dataclass

#: The errors of a process that has ended, which are not reported, as it has done nothing that could have been seen.
_GONE = frozenset({"no-such-process", "cannot-launch", "keeper-gone"})
_NAMED, _REASONS = 5, 10
_GLANCE = 0.005  # seconds between looks for opened libraries


@dataclass
class TreeReport:
    """The fate of the followed programs: how many there were, how many have probes, and why others have none."""

    programs: int = 1
    probed: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)  # by reason, the names of programs

    def remarks(self) -> list[str]:
        what = "program" if self.programs == 1 else "programs"
        said = [f"followed {self.programs} {what}, {self.probed} with probes"]
        reasons = list(self.refused.items())
        for why, names in reasons[:_REASONS]:
            distinct = list(dict.fromkeys(names))
            more = f" and {len(distinct) - _NAMED} more" if len(distinct) > _NAMED else ""
            said.append(f"not everything is seen in {', '.join(distinct[:_NAMED])}{more}: {why}")
        if rest := reasons[_REASONS:]:
            said.append(f"not everything is seen in {sum(len(names) for _, names in rest)} more, for other reasons")
        return said


@dataclass
class TreeConsumer(Consumer):
    """A session over a tree; ``process`` is its first process. Subclasses may have several trees."""

    tracing: TreeEngine = field(init=False)
    _trees: list[TreeClient] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)  # by tree, and the program's number there
    _told: TreeReport = field(default_factory=TreeReport)
    _processes: dict[int, Process] = field(default_factory=dict)  # by _numbers
    _bare: set[int] = field(default_factory=set)  # numbers of programs that had no probes when they began
    _unmatched: set[Description] = field(default_factory=set)  # descriptions that have matched nothing yet

    @property
    def _first(self) -> Process:
        assert self.process is not None
        return self.process

    def enable(self, zero: bool, listing: bool = False) -> Enabled:
        enabled = enable(self.compiled.program, self.process, zero, renamed=self._renamed(self._first))
        self._unmatched = set(enabled.unmatched)
        self._note_probes(0, enabled)
        return enabled

    def _note_probes(self, number: int, enabled: Enabled) -> None:
        """Count a program if it has probes; if not, it may get some with a library."""
        self._told.probed += bool(enabled.in_process)
        if not enabled.in_process:
            self._bare.add(number)

    def _stop_watching(self, number: int) -> None:
        opened = self._openings.get(number)
        if opened is not None and opened.has_probed and number in self._bare:
            self._told.probed += 1
        super()._stop_watching(number)

    def _renamed(self, process: Process) -> Renamed:
        return Renamed(self._first.pid, process.pid)

    def _watch(self, process: Process) -> None:
        """Do nothing: the tree tells of processes and programs that are started."""

    def _engine(self) -> TreeEngine:
        """The engine. The tree is followed from before anything is put in."""
        self._begin_following()
        first = self._first
        engine = TreeEngine(self.compiled.program, self.enabled, self.options, (first, partial(joined, first)))
        engine.note(0, first)
        return engine

    def _withdraw(self) -> None:
        self._stop_following()
        super()._withdraw()
        self._trees, self._numbers, self._told, self._bare = [], {}, TreeReport(), set()

    def _begin_following(self) -> None:
        for process in self._roots[len(self._trees) :]:
            self._number(len(self._trees), 0)
            self._trees.append(TreeClient(process))

    @property
    def _roots(self) -> list[Process]:
        """The processes with which the trees begin."""
        return [self._first]

    def _number(self, tree: int, program: int) -> int:
        """The number of a program among those of all trees; the first programs of the trees have the first numbers."""
        return self._numbers.setdefault((tree, program), len(self._numbers))

    # Programs that begin and end.

    def _rest(self, seconds: float) -> None:
        """Wait for ``seconds``, or until a tree has news, because a new program is stopped until it has its probes."""
        lines = [fd for followed in self._trees if (fd := followed.fileno()) >= 0]
        if not lines:
            time.sleep(seconds)
        there, _ = wire.ready(lines, seconds=min(seconds, _GLANCE) if self._openings else seconds)
        for number, following in enumerate(self._trees):
            if following.fileno() in there:
                with at_work(self._trees):
                    self._hear(number, following)
        super()._rest(0.0)

    def _hear(self, number: int, following: TreeClient) -> None:
        for news in following.look():
            match news:
                case Executed():
                    self._begun(number, following, news)
                case ProgramEnded():
                    self._over_with(self._number(number, news.program))
                case TreeEnded():
                    following.close()
                case ProgramsPassed(count):
                    self._refuse(f"{count} programs", passed(count))
        if following.lost:
            self._refuse(program_of(self._roots[number].pid), "the process that held them has gone (keeper-gone)")

    def _begun(self, number: int, following: TreeClient, news: Executed) -> None:
        """``number``: that of the tree."""
        mine = self._number(number, news.program)
        self._told.programs += 1
        path, process = program_of(news.pid), None
        try:
            process = following.claim(news)
            startup.link(process)
            self._belongs(process, number)
            if self._make_ready(mine, process, path):
                self._processes[mine] = process
        except (GilkError, OSError, DoesNotCompile) as error:
            if getattr(error, "slug", "") not in _GONE:
                self._refuse(path, str(error))
        if process is not None:
            with contextlib.suppress(GilkError):  # the process has ended
                process.release()
            if mine not in self._processes:
                let_go_of(process)

    def _belongs(self, process: Process, tree: int) -> None:
        """Take note of a process before anything is compiled for it."""

    def _make_ready(self, number: int, process: Process, path: str) -> bool:
        """Put probes into a new program, which waits before its first instruction; returns whether it has any, or may
        get some. Raises GilkError, DoesNotCompile."""
        known = process.loaded()
        program, enabled = self._compiled_in(process)
        names = patterns(program, process, self._renamed(process))
        if not enabled.in_process and not self._samples and not may_come(process, names, known, launched=True):
            return False
        for probe, why in self._put_in(number, process, program, enabled):
            self._refuse(path, f"{probe}: {why}")
        self._note_probes(number, enabled)
        self._watch_libraries(number, process, known, launched=True)
        return True

    def _compiled_in(self, process: Process) -> tuple[tree.Program, Enabled]:
        """The D program compiled for another process. Raises UsageError `cannot-follow`, GilkError, DoesNotCompile."""
        if process.own_number != process.pid:
            raise UsageError("cannot-follow", "it is in a PID namespace of its own, where threads have other numbers")
        return self._compiled_for(process, process)

    def _compiled_for(self, process: Process, code: Process) -> tuple[tree.Program, Enabled]:
        program, enabled = super()._compiled_for(process, code)
        self._unmatched.intersection_update(enabled.unmatched)
        return program, enabled

    def _put_in(
        self, number: int, process: Process, program: tree.Program, enabled: Enabled
    ) -> list[tuple[DProbe, str]]:  # fmt: skip
        """Put the probes into a process; returns those that are refused, with the reasons. Raises GilkError."""
        self.tracing.note(number, process)
        return self.tracing.add(number, process, partial(joined, process), program, enabled)

    @property
    def _samples(self) -> bool:
        """Whether probes of the clock sample the threads of all programs."""
        return any(tick.samples for _, tick in self.enabled.ticks)

    def _refuse(self, path: str, why: str) -> None:
        self._told.refused.setdefault(why, []).append(path.rpartition("/")[2])

    def _over_with(self, number: int) -> None:
        """Let go of a program that has ended now, not at the session's end: there may be many, and each takes
        memory."""
        process = self._processes.pop(number, None)
        with contextlib.suppress(GilkError):
            self._stop_watching(number)
        if process is not None:
            with contextlib.suppress(GilkError):  # the process has ended
                self.tracing.forget(number)
            let_go_of(process)

    def _goes_on(self) -> bool:
        """Whether a process of the tree still runs."""
        return any(followed.fileno() >= 0 for followed in self._trees)

    # The end.

    def _stop_following(self) -> None:
        for followed in self._trees:
            followed.close()

    def _take_out(self) -> bool | None:
        self._stop_following()
        return super()._take_out()

    def leave(self) -> None:
        self._stop_following()
        while self._processes:
            let_go_of(self._processes.popitem()[1])

    def _remarks(self) -> list[str]:
        lacking = (f"no program that was followed has a probe {one}" for one in self._lacking)
        return [*super()._remarks(), *self._told.remarks(), *left_unseen(self._trees), *lacking]

    @property
    def _lacking(self) -> list[Description]:
        """The descriptions that matched nothing in any program."""
        return [] if self.options.flag("zdefs") else sorted(self._unmatched, key=str)

    @property
    def exit_status(self) -> int:
        return super().exit_status or int(bool(self._lacking))


def let_go_of(process: Process) -> None:
    """Take everything out of one of several processes, which may have ended, and let go of it."""
    with contextlib.suppress(GilkError):
        process.close()
    process.meeting.close()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs that follow a tree of processes: each program that one of them executes is made ready before its first
instruction, and is let go when no process runs it any more."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import field, replace

from gilk.errors import GilkError
from gilk.runs.outcome import Result, SessionOutcome, added, outcome_of
from gilk.runs.progress import Progress
from gilk.runs.run import Run
from gilk.runs.spent import CostedPart
from gilk.session.base import BaseSession
from gilk.targets import startup, wire
from gilk.targets.maps import program_of
from gilk.targets.process import Process
from gilk.targets.tree import Executed, ProgramEnded, ProgramsPassed, TreeEnded
from gilk.targets.tree_client import TreeClient, at_work, left_unseen, passed
from gilk.trace.about import About
from gilk.trace.programs import ProgramOutcome
from gilk.values import dataclass

#: The errors of a process that has ended, which are not reported, as it has done nothing that could have been seen.
_GONE = frozenset({"no-such-process", "cannot-launch", "keeper-gone"})
_GLANCE = 0.005  # seconds between looks for opened libraries


@dataclass
class FollowedProgram:
    """A program of a tree. ``sessions`` is empty if it has no instruments, or has none any more. ``past``: the outcomes
    of closed sessions."""

    pid: int
    path: str
    process: Process | None = None
    sessions: list[BaseSession] = field(default_factory=list)
    slug: str = ""
    message: str = ""
    past: list[SessionOutcome] = field(default_factory=list)

    def outcome(self) -> ProgramOutcome:
        parts = [*self.past, *map(outcome_of, self.sessions)]
        points = sum(sum(part.tactics.values()) for part in parts)
        records = int(sum(part.numbers["records"] for part in parts))
        counts = added([part.counts for part in parts])
        return ProgramOutcome(self.pid, self.path, points, records, counts, self.slug, self.message)


@dataclass
class TreeRun(Run):
    """A run that follows a tree. Subclasses define in ``_make_ready`` what it does with each program."""

    _trees: dict[int, TreeClient] = field(default_factory=dict)  # by pid of the process that the tree begins with
    _programs: dict[tuple[int, int], FollowedProgram] = field(default_factory=dict)  # by tree, and number in it

    def _follow_all(self) -> None:
        """Begin to follow all processes, whose present programs come first. Raises TargetError."""
        self.tells_of_unseen = False
        for process in self.processes:
            self._trees[process.pid] = TreeClient(process)
            self._programs[process.pid, 0] = FollowedProgram(process.pid, program_of(process.pid), process)

    @abstractmethod
    def _make_ready(self, program: FollowedProgram, process: Process) -> None:
        """Instrument a program that waits before its first instruction, if there is anything to instrument in it.

        Raises GilkError.
        """

    def _withdraw(self) -> None:
        for tree in self._trees.values():
            tree.close()
        super()._withdraw()
        self._trees, self._programs = {}, {}

    # Programs that begin and end.

    def _rest(self, seconds: float) -> None:
        """Wait for ``seconds``, or until a tree has news, because a new program is stopped until it is ready."""
        lines = {fd: tree for tree in self._trees.values() if (fd := tree.fileno()) >= 0}
        there, _ = wire.ready(list(lines), seconds=min(seconds, _GLANCE) if self._openings else seconds)
        super()._rest(0.0)
        for root, tree in list(self._trees.items()):
            if tree.fileno() in there:
                with at_work(self._trees.values()):
                    self._hear(root, tree)

    def _hear(self, root: int, tree: TreeClient) -> None:
        for news in tree.look():
            match news:
                case Executed():
                    self._begun(root, tree, news)
                case ProgramEnded():
                    self._over_with(self._programs.get((root, news.program)))
                case TreeEnded():
                    tree.close()
                case ProgramsPassed(count):
                    self.partial = True
                    self.notes.append(passed(count))
        if tree.lost:
            self.partial = True
            self.notes.append(f"process {root} is followed no more: the process that held it has gone (keeper-gone)")

    def _begun(self, root: int, tree: TreeClient, news: Executed) -> None:
        program = FollowedProgram(news.pid, program_of(news.pid))
        self._programs[root, news.program] = program
        process = None
        try:
            process = program.process = tree.claim(news)
            startup.link(process)
            self._make_ready(program, process)
        except (GilkError, OSError) as error:
            self._refuse(program, error)
        if process is not None:
            with contextlib.suppress(GilkError):  # the process has ended
                process.release()
            if not program.sessions and process not in self._openings:
                self._let_go(program)

    def _refuse(self, program: FollowedProgram, error: GilkError | OSError) -> None:
        """Note why a program has no instruments. A process that has ended before its first instruction is not
        reported."""
        self._forget(program)
        slug = error.slug if isinstance(error, GilkError) else "cannot-follow"
        if slug not in _GONE:
            program.slug = slug
            program.message = error.message if isinstance(error, GilkError) else str(error)

    def _forget(self, program: FollowedProgram) -> None:
        """Close the program's sessions, which may fail, and keep their outcomes."""
        with contextlib.suppress(GilkError):
            self._note_stopped(self._openings.stop(program.process))
        sessions, program.sessions = program.sessions, []
        for session in sessions:
            with contextlib.suppress(ValueError):
                self.sessions.remove(session)
            try:
                self._keep(session.close())
            except (GilkError, OSError) as error:
                self.partial = True
                self.notes.append(f"{session.code.who}: {error}")
            self.notes += session.notes
            program.past.append(outcome_of(session))

    def _over_with(self, program: FollowedProgram | None) -> None:
        """Let go of a program that no process runs any more, now and not at the end: there may be many, and each takes
        memory."""
        if program is None or program.process in self.processes:
            return
        for session in program.sessions:
            session.take()
            while session.waiting:
                self._keep(session.convert())
        self._forget(program)
        self._let_go(program)

    @staticmethod
    def _let_go(program: FollowedProgram) -> None:
        if program.process is not None:
            with contextlib.suppress(GilkError):
                program.process.close()
            program.process = None

    def _look(self) -> None:
        """Do nothing: the trees tell of processes that end and of programs that are executed."""

    def _over(self) -> bool:
        return all(tree.fileno() < 0 for tree in self._trees.values())

    # The report.

    def _past(self) -> list[SessionOutcome]:
        return [part for one in self._programs.values() for part in one.past]

    def _outcomes(self) -> list[SessionOutcome]:
        return [*self._past(), *super()._outcomes()]

    def _costed(self) -> list[CostedPart]:
        past = [CostedPart(part.rows, part.counts, part.measured) for part in self._past()]
        return [*past, *super()._costed()]

    def counts(self) -> dict[str, int]:
        return added([*(part.counts for part in self._past()), super().counts()])

    def progress(self) -> Progress:
        state, past = super().progress(), self._past()
        state.hits += sum(sum(part.counts.values()) for part in past)
        state.records += int(sum(part.numbers["records"] for part in past))
        state.drops += int(sum(part.numbers["drops"] for part in past))
        return state

    def _about(self) -> About:
        rows = tuple(row for part in self._past() for row in part.rows)
        pids = tuple(dict.fromkeys(one.pid for one in self._programs.values()))
        about = super()._about()
        files = [image for part in self._past() for image in part.images]
        images = tuple(dict.fromkeys([*files, *about.images]))
        return replace(about, probes=(*rows, *about.probes), pids=pids, images=images)

    def take_out(self) -> bool | None:
        """Stop following, then take everything out."""
        for tree in self._trees.values():
            tree.close()
        unseen = left_unseen(self._trees.values())
        self.partial = self.partial or bool(unseen)
        self.notes += unseen
        return super().take_out()

    def _result(self) -> Result:
        result = super()._result()
        result.programs = [one.outcome() for one in self._programs.values()]
        return result

    def _leave(self) -> None:
        for tree in self._trees.values():
            tree.close()
        for program in self._programs.values():
            if program.process not in self.processes:
                self._let_go(program)
        super()._leave()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose accesses are woven, beside a model that carries out the same commands; both are made from a seed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gilk.lang.aspect.checked import CheckedFile
from gilk.targets.process import Process, attach
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.woven_model import Played, Seen, woven, written
from tests.behaviour.woven_program import Command, Commanded, build, commanded


class PlayedAccesses(Played):
    """A model of the program, which carries out the program's commands."""

    @abstractmethod
    def command(self, one: Command) -> str:
        """Carry out a command. Returns the line that the program must print."""


@dataclass(frozen=True)
class Cases:
    """The cases of a test. ``text`` makes a file of aspects from a seed; ``before`` has lines for the program before
    it is woven."""

    text: Callable[[int], str]
    commands: Callable[[int], Sequence[Command]]
    model: Callable[[CheckedFile, int], PlayedAccesses]
    before: Sequence[str] = ()

    def played(self, file: CheckedFile, wanted: Sequence[Command], pid: int) -> Seen:
        model = self.model(file, pid)
        return model.seen([model.command(one) for one in wanted])

    def all_played(self, place: Path, seeds: Iterable[int]) -> list[Seen]:
        files = [(written(place, self.text(seed)), self.commands(seed)) for seed in seeds]
        return [self.played(file, wanted, 1) for file, wanted in files]


@dataclass(frozen=True)
class Agreement:
    """A running program that is woven again and again, and compared with the model."""

    cases: Cases
    program: Commanded
    process: Process

    def holds(self, place: Path, seed: int) -> None:
        """Assert that the program does what the model says: output, reports in their order, counts of instances."""
        for line in self.cases.before:
            self.program.ask(line)
        text = f"/* seed {seed} */\n{self.cases.text(seed)}"
        file, wanted = written(place, text), self.cases.commands(seed)
        expected = self.cases.played(file, wanted, self.program.pid)
        found = woven(file, wanted, self.program, self.process)
        assert found.outputs == expected.outputs, text
        assert found.reports == expected.reports, text
        assert found.instances == expected.instances, text


@contextmanager
def agreeing(cases: Cases, place: Path, source: str) -> Iterator[Agreement]:
    """Run the program; at the end it must be what it was."""
    with commanded(build(place, source)) as program:
        with attach(program.pid) as process:
            yield Agreement(cases, program, process)
        assert not differences(program.pid) and not leftovers(program.pid)

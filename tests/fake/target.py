# SPDX-License-Identifier: LGPL-2.1-or-later
"""The fake as a target, with the methods that sessions need of a process (targets/base.py). Its keeper is called
directly."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gilk.analysis.analysis import Analysis
from gilk.image.elf import load
from gilk.image.model import ElfSymbol, Image
from gilk.splice.allocator import Occupied
from gilk.targets.answers import Answer, Answers
from gilk.targets.base import Loaded
from gilk.targets.copies import Units
from gilk.targets.image import analyse
from gilk.targets.keeper import Keeper
from gilk.targets.maps import occupied
from gilk.targets.requests import Requests
from gilk.targets.running import Sample
from gilk.targets.semaphores import Raised, Semaphore
from tests.fake.program import Program
from tests.fake.traced import FakeTraced

#: The images of files, which do not change.
_images: dict[Path, Image] = {}
_analyses: dict[Path, Analysis] = {}


class Called(Requests):
    """A keeper in the same thread. Requests and answers are copied, as a socket would do."""

    def __init__(self, traced: FakeTraced) -> None:
        super().__init__()
        self.keeper = Keeper(traced)
        self._answers = Answers(self.keeper)

    def ask(self, name: str, *arguments: Any, fds: tuple[int, ...] = ()) -> Any:
        found: list[Answer] = []

        def send(answer: Answer, descriptors: tuple[int, ...]) -> None:
            self.received = tuple(map(os.dup, descriptors))
            found.append(pickle.loads(pickle.dumps(answer)))

        self._answers.answer(name, pickle.loads(pickle.dumps(arguments)), send)
        good, value = found[-1]
        if not good:
            raise value
        return value


class FakeThreadNames:
    """The names of the fake's threads that have not ended."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def live(self, threads: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        return {(self._program.pid, tid) for tid in self._program.tasks}

    def name(self, pid: int, tid: int) -> str:
        return f"thread-{tid - pid}" if tid in self._program.tasks else ""


class FakeProcess:
    """A program of the fake as a process. ``traced`` is how its keeper reaches it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.traced = FakeTraced(program)
        self.keeper = Called(self.traced)
        self.threads = FakeThreadNames(program)
        self.unstarted = False

    @property
    def pid(self) -> int:
        return self.program.pid

    @property
    def who(self) -> str:
        return f"process {self.pid}"

    @property
    def own_number(self) -> int:
        return self.pid

    def loaded(self) -> tuple[Loaded, ...]:
        return () if self.program.space.gone else self.program.loaded

    def image(self, path: Path) -> Image:
        if path not in _images:
            _images[path] = load(path)
        return _images[path]

    def analysis(self, loaded: Loaded) -> Analysis:
        if loaded.path not in _analyses:
            _analyses[loaded.path] = analyse(self.image(loaded.path))
        return _analyses[loaded.path]

    def gone(self, tid: int) -> bool:
        return not any(tid in one.tasks for one in (self.program, *self.program.children))

    def status(self) -> dict[bytes, bytes]:
        numbers = dict.fromkeys((b"Uid", b"Gid"), b"1000\t1000\t1000\t1000")
        return {b"Name": b"plain", b"PPid": b"1", **numbers}

    def root(self) -> bytes:
        return b"/"

    def check_hits(self) -> None:
        """The program makes no system calls."""

    def may_be_killed(self) -> bool:
        return False

    def caught(self) -> int:
        return 0

    def occupied(self) -> Occupied:
        return occupied(self.traced.maps())

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        return next((one for one in self.image(path).symbols if one.name == name and one.exported), None)

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        image = self.image(path)
        return not names.isdisjoint({*image.plt.values(), *image.got.values()}) or any(map(image.named, names))

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        found = self.keeper.raise_semaphores(counters)
        return found

    def sample(self, stack: int = 0) -> list[Sample]:
        found = self.keeper.sample(stack)
        return found

    def copy_code(self, units: Units) -> int:
        return len(self.keeper.copy_code(units))

    def keep_learnt(self) -> None: ...

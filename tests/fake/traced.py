# SPDX-License-Identifier: LGPL-2.1-or-later
"""The fake as its keeper reaches it, with the protocol of targets/traced.py.

Everything that a keeper does to it is a *step*, which can be made to fail. The same steps come in the same order in
every run.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Iterator

from gilk.errors import TargetError
from gilk.targets.bounds import Bounds
from gilk.targets.frames import SignalFrame
from gilk.targets.held import Held
from gilk.targets.maps import Mapping
from gilk.targets.places import Places
from gilk.targets.running import Sample
from gilk.targets.shelter import Shelter
from gilk.targets.system_calls import SystemCalls
from gilk.targets.thread import Thread
from tests.fake.kernel import FakeCalls
from tests.fake.program import Program, Task

_PER_SECOND = 1_000_000  # instructions
_A_STOP = 0.25  # seconds that a stop takes on the keeper's clock


class Steps:
    """The steps that a keeper has taken, by name. ``fails`` is the number, from 0, of the step that raises, and the
    exception; ``before`` is the number of a step, and a function that is called before it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails: tuple[int, BaseException] | None = None
        self.before: tuple[int, Callable[[], object]] | None = None

    def __call__(self, name: str) -> None:
        self.done.append(name)
        number = len(self.done) - 1
        if self.before is not None and self.before[0] == number:
            self.before[1]()
        if self.fails is not None and self.fails[0] == number:
            raise self.fails[1]


class FakeMemory:
    """The program's memory, with the methods of /proc/PID/mem."""

    def __init__(self, program: Program, step: Steps) -> None:
        self._space = program.space
        self._step = step

    def read(self, address: int, size: int) -> bytes:
        self._step("read")
        return self._space.read(address, size)

    def some(self, address: int, size: int) -> bytes:
        return self._space.some(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._step("write")
        self._space.write(address, data)


class FakeThreads:
    """The program's threads. ``on_stop`` is called once all threads are stopped, before anybody looks at them."""

    def __init__(self, program: Program, step: Steps, take: Callable[[float], None]) -> None:
        self._program = program
        self._step = step
        self._take = take
        self._threads: dict[int, Thread] = {}
        self.standing = False

    @property
    def pid(self) -> int:
        return self._program.pid

    @contextlib.contextmanager
    def stopped(self) -> Iterator[dict[int, Thread]]:
        self._step("stop")
        if not self._program.tasks:
            raise TargetError("no-such-process", f"process {self.pid} has ended")
        assert not self.standing
        self.standing = True
        self._take(_A_STOP)
        self._threads = {tid: _thread(task) for tid, task in self._program.tasks.items()}
        try:
            yield self._threads
        finally:
            for thread in self._threads.values():
                with contextlib.suppress(ProcessLookupError):
                    self._give(thread)
            self.standing = False

    def run_on(self, thread: Thread, seconds: float) -> Thread:
        self._step("run_on")
        self._give(thread)
        del self._threads[thread.tid]
        self._take(seconds)
        self._program.step(self._task(thread.tid), max(1, int(seconds * _PER_SECOND)))
        task = self._task(thread.tid)
        self._threads[thread.tid] = made = _thread(task)
        return made

    def catch_up(self) -> bool:
        fresh = self._program.tasks.keys() - self._threads.keys()
        self._threads |= {tid: _thread(self._program.tasks[tid]) for tid in fresh}
        return bool(fresh)

    def flush(self, thread: Thread) -> None:
        self._step("flush")
        self._give(thread)

    def _give(self, thread: Thread) -> None:
        if thread.dirty:
            self._task(thread.tid).registers = thread.registers.copy()
            thread.dirty = False

    def _task(self, tid: int) -> Task:
        if tid not in self._program.tasks:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return self._program.tasks[tid]


class FakeTaking:
    """Takes descriptors of the program, which are descriptors of this process with other numbers."""

    def __init__(self, program: Program, step: Steps) -> None:
        self._files = program.files
        self._step = step

    def take(self, tid: int, fd: int, size: int) -> int:
        self._step("take")
        mine = os.dup(self._files.real[fd])
        os.ftruncate(mine, size)
        return mine

    def check_mapped(self, address: int, size: int, mine: int) -> None:
        self._step("check_mapped")

    def hand_over(self, call: SystemCalls, mine: int) -> int:
        self._step("hand_over")
        return self._files.adopt(mine, "shared")


class FakeTraced:
    """A program as its keeper sees it. ``took`` is the seconds that have passed on the keeper's clock."""

    def __init__(self, program: Program, step: Steps | None = None) -> None:
        self.running = program
        self.step = step or Steps()
        self.took = 0.0
        self.memory = FakeMemory(program, self.step)
        self.threads = FakeThreads(program, self.step, self._take)
        self.taking = FakeTaking(program, self.step)

    @property
    def pid(self) -> int:
        return self.running.pid

    def _take(self, seconds: float) -> None:
        self.took += seconds

    @contextlib.contextmanager
    def calls(self) -> Iterator[SystemCalls]:
        assert self.threads.standing
        self.step("borrow")
        tid = min(self.running.tasks, default=0)
        if not tid:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        yield FakeCalls(self.running.space, self.running.files, self.memory, tid, self.step)

    def shelter(self, place: Shelter | None) -> None: ...

    def check_alone(self, name: str) -> None:
        self.step("check_alone")

    def program(self) -> str:
        return str(self.running.loaded[0].path)

    # The program's mappings.

    def maps(self) -> tuple[Mapping, ...]:
        self.step("maps")
        if self.running.space.gone:
            raise TargetError("no-such-process", f"there is no process {self.pid}")
        return self.running.space.maps()

    @contextlib.contextmanager
    def bounds(self) -> Iterator[Bounds]:
        def ask(address: int) -> tuple[int, int] | None:
            found = self.running.space.at(address)
            return None if found is None else (found.start, found.end)

        yield ask

    def parked(self, restorers: frozenset[int], seen: Collection[int]) -> Iterator[SignalFrame]:
        """The frames of parked signals: none, as no signal is handled."""
        return iter(())

    def renew(self) -> bool:
        return False

    def still_has(self, address: int) -> bool:
        return not self.running.space.gone and self.running.space.at(address) is not None

    # The program's state.

    def now(self) -> float:
        return self.took

    def pause(self, seconds: float) -> None:
        """Let all threads go on for the time that a keeper waits."""
        self._take(seconds)
        self.running.turn(max(1, int(seconds * _PER_SECOND)))

    def cpu_time(self) -> float:
        return self.took

    def lives(self, pid: int) -> bool:
        return any(one.pid == pid and one.tasks for one in (self.running, *self.running.children))

    def sample(self, held: Held, patches: Places, stack: int) -> list[Sample]:
        return []

    def look_for_newcomers(self, held: Callable[[], Held]) -> list[str]:
        return []

    def release_late(self) -> bool:
        return False

    # Forked children.

    def heirs(self, name: str) -> list[int]:
        return [one.pid for one in self.running.children if one.tasks and self._has(one, name)]

    @staticmethod
    def _has(one: Program, name: str) -> bool:
        return any(each.path.startswith(f"/memfd:{name}") for each in one.space.maps())

    @contextlib.contextmanager
    def heir(self, pid: int) -> Iterator[FakeTraced]:
        yield FakeTraced(next(one for one in self.running.children if one.pid == pid), self.step)


def _thread(task: Task) -> Thread:
    return Thread(task.tid, 0, task.registers.copy())

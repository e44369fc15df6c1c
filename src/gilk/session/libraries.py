# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that a program opens during a session: they are dealt with before their first instruction runs.

The dynamic linker calls a function of its own, for debuggers, once it has
mapped a library and before it runs the library's constructors (``r_brk`` of
``struct r_debug``, <link.h>). A gate there holds the thread while the library
is made ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import numpy as np

from gilk.analysis.model import Function
from gilk.errors import GilkError
from gilk.image.model import FunctionSpan
from gilk.splice import points
from gilk.splice.points import Point
from gilk.targets.base import Code, Loaded
from gilk.trace.clock import Clock
from gilk.trace.gates import Gates

_NOTIFY = "_dl_debug_state"
_HOLD = 60.0  # seconds; the gate is opened as soon as all is ready, and by the keeper should we die
_EVERY = 0.05  # seconds between looks where there is no gate, at the least
_REST = 20  # times as long as a look has taken, before the next

Prepare = Callable[[Sequence[Loaded]], None]


class HoldsThreads(Protocol):
    """Puts gates into a process."""

    clock: Clock
    gates: Gates

    @property
    def code(self) -> Code: ...

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Have ``gates`` know when control is at the ``entry``, or the ``return``, of a function. Raises TargetError
        `cannot-watch`."""
        ...

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped: what comes to lie there is another, or the same once more, to be made ready."""
        ...


class Libraries:
    """The libraries of one process. ``known`` were made ready, None for those that there are once threads are held;
    ``prepare`` is called with new ones. ``held``: ns
    for which threads were held. ``watched``: whether they can be; ``arrivals`` has the libraries that come where they
    cannot, and nothing is made ready. ``hindrance``: why, empty where none can come either.
    """

    def __init__(self, holder: HoldsThreads, gate: int, prepare: Prepare, known: Collection[Loaded] | None) -> None:
        self._holder = holder
        self._gate = gate
        self._prepare = prepare
        self.held = 0
        self.hindrance = ""
        self.watched = self._watch()
        self.known = tuple(holder.code.loaded() if known is None else known)
        self._known = set(self.known)
        self.arrivals = Arrivals(holder.code, self.known)
        self._catch_up()

    def _watch(self) -> bool:
        """Put the gate in. False where that cannot be done."""
        code = self._holder.code
        present = code.loaded()
        for loaded in present:
            span = next((s for s in code.image(loaded.path).spans if _NOTIFY in (s.name, *s.aliases)), None)
            if span is not None:
                try:
                    self._holder.put_gate(loaded, span, "entry", self._gate)
                except GilkError as error:
                    self.hindrance = str(error)
                    return False
                self._holder.gates.arm(self._gate, hold=_HOLD)
                return True
        if any(loaded.main and not code.image(loaded.path).static for loaded in present):
            self.hindrance = f"its dynamic linker has no {_NOTIFY}"
        return False

    def look(self, seconds: float = 0.0) -> bool:
        """Deal with libraries that have come; whether a thread had been waiting for that. ``seconds``: for how long to
        wait for one."""
        if not self.watched:
            self.arrivals.look()
            time.sleep(seconds)
            return False
        reached = self._holder.gates.wait(self._gate, seconds)
        if reached is None:
            return False
        try:
            self._catch_up()
        finally:
            self._holder.gates.arm(self._gate, hold=_HOLD)
            self._holder.gates.wake(self._gate)
        since = int(self._holder.clock.to_ns(np.array([reached.tsc], np.uint64))[0])
        self.held += max(0, time.monotonic_ns() - since)
        return True

    def look_last(self) -> None:
        """Where there is no gate: once more, at the end."""
        if not self.watched:
            self.arrivals.look(at_last=True)

    def _catch_up(self) -> None:
        """The thread waits meanwhile. Patches that go with an image are none that it is in, since it is in the linker's
        function."""
        present = set(self._holder.code.loaded())
        if not present:
            return  # the process has ended
        for loaded in self._known - present:
            self._holder.lose(loaded)
        self._known &= present
        fresh = sorted(present - self._known, key=lambda loaded: loaded.start)
        self._known = present
        if fresh:
            self._prepare(fresh)


class Arrivals:
    """The libraries that come while nobody is held: some of their instructions have run when they are noticed.

    ``unseen``: those noticed so far, in order.
    """

    def __init__(self, code: Code, known: Collection[Loaded]) -> None:
        self._code, self._known = code, set(known)
        self._due = 0.0
        self.unseen: dict[Loaded, None] = {}

    def look(self, at_last: bool = False) -> None:
        """To be called often. ``at_last``: there will be no other look."""
        began = time.monotonic()
        if began < self._due and not at_last:
            return
        present = set(self._code.loaded())
        self.unseen.update(dict.fromkeys(sorted(present - self._known, key=lambda loaded: loaded.start)))
        self._known = present or self._known
        took = time.monotonic() - began
        self._due = began + took + max(_EVERY, _REST * took)


def places(code: Code, loaded: Loaded, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
    """The points of a function at which a gate at its ``entry``, or its ``return``, lies."""
    image, analysis = code.image(loaded.path), code.analysis(loaded)
    if where == "return":
        return points.returns(image, analysis, function)
    return ((function, point) for point in points.points(image, analysis, function, where))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that a program opens during a session, which are dealt with before their first instruction runs.

The dynamic linker calls a function of its own, meant for debuggers, after it has mapped a library and before it runs
the library's constructors (``r_brk`` of ``struct r_debug``, <link.h>). A gate in that function holds the thread while
the library is made ready.
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
from gilk.targets.ended import unless_ended
from gilk.trace.clock import Clock
from gilk.trace.gates import Gates

_NOTIFY = "_dl_debug_state"
_HOLD = 60.0  # seconds; the gate opens as soon as all is ready, and the keeper opens it if this process dies
_EVERY = 0.05  # the least seconds between two looks where there is no gate
_REST = 20  # how many times longer than a look the pause after it is

Prepare = Callable[[Sequence[Loaded]], None]


class HoldsThreads(Protocol):
    """A session that can put gates into a process."""

    clock: Clock
    gates: Gates

    @property
    def code(self) -> Code: ...

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Put a gate at the ``entry``, or at all of the ``return`` points, of a function; ``gates`` knows when a thread
        reaches it. Raises TargetError `cannot-watch`."""
        ...

    def lose(self, loaded: Loaded) -> None:
        """Forget an unmapped image: an image that is mapped there later is another one, or has to be made ready
        again."""
        ...


class Libraries:
    """The libraries of one process, which calls ``prepare`` with new ones while a gate holds the thread that opens
    them.

    ``known``: the libraries that are ready already; None: those that are there once the gate is in. ``held``: for how
    many ns threads were held. ``watched``: whether the gate is in. If not, nothing is made ready, ``arrivals`` has the
    libraries that come, and ``hindrance`` has the reason; it is empty if no library can come.
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
        """Put the gate in; returns whether that worked."""
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
        """Deal with libraries that have come; returns whether a thread was held for that. ``seconds``: how long to wait
        for one."""
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
        """At the end, look once more for new libraries if there is no gate; a process that has ended shows no more of
        them. Raises TargetError."""
        with unless_ended():
            if not self.watched:
                self.arrivals.look(at_last=True)

    def _catch_up(self) -> None:
        """Note what was mapped and unmapped, and prepare new libraries.

        The thread at the gate waits meanwhile. It is in a function of the linker, hence in no patch of an unmapped
        image.
        """
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
    """The libraries that come while no thread is held, so that some of their code has run when they are noticed.

    ``unseen``: those noticed so far, in order.
    """

    def __init__(self, code: Code, known: Collection[Loaded]) -> None:
        self._code, self._known = code, set(known)
        self._due = 0.0
        self.unseen: dict[Loaded, None] = {}

    def look(self, at_last: bool = False) -> None:
        """Look for new libraries, unless it is too early; call it often. ``at_last``: look in any case, for the last
        time."""
        began = time.monotonic()
        if began < self._due and not at_last:
            return
        present = set(self._code.loaded())
        self.unseen.update(dict.fromkeys(sorted(present - self._known, key=lambda loaded: loaded.start)))
        self._known = present or self._known
        took = time.monotonic() - began
        self._due = began + took + max(_EVERY, _REST * took)


def places(code: Code, loaded: Loaded, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
    """The points that a gate at the ``entry``, or at the ``return``, of a function needs, each with its function or
    part."""
    image, analysis = code.image(loaded.path), code.analysis(loaded)
    if where == "return":
        return points.returns(image, analysis, function)
    return ((function, point) for point in points.points(image, analysis, function, where))

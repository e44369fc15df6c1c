# SPDX-License-Identifier: LGPL-2.1-or-later
"""A part in a shared session that only holds threads while the libraries that they open are dealt with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from gilk.errors import GilkError, TargetError
from gilk.image.model import FunctionSpan
from gilk.session.broker.client import BrokerClient
from gilk.session.libraries import Libraries, Prepare, places
from gilk.spec.image import MAIN, is_glob
from gilk.targets.base import Code, Loaded
from gilk.targets.process import Process
from gilk.trace.clock import Clock
from gilk.trace.gates import Gates
from gilk.trace.layout import Geometry, Shared
from gilk.values import dataclass

_GATE, _RING = 0, 4096


class LibraryWatch:
    """Calls ``prepare`` with libraries that were opened, and ``lose`` with each one that was closed, before the thread
    goes on.

    ``known``: see Libraries. If no gate can be put in, ``libraries.arrivals`` has the new ones.
    """

    def __init__(
        self, process: Process, clock: Clock, prepare: Prepare, lose: Callable[[Loaded], None],
        known: Collection[Loaded] | None,
    ) -> None:  # fmt: skip
        """Join the session of the process, and put the gate in. Raises TargetError."""
        self._process, self.clock, self._lose = process, clock, lose
        geometry = Geometry.plan(1, frozenset(), 1, _RING)
        self._client = BrokerClient(process, geometry.size + geometry.stride)
        try:
            memory = memoryview(self._client.memory)
            geometry.initialise(memory)
            Shared(geometry, memory).control["self"] = self._client.open_region(geometry)
            self.gates = Gates(memory)
            self.libraries = Libraries(self, _GATE, prepare, known)
        except BaseException:
            self.close()
            raise

    @property
    def code(self) -> Code:
        return self._process

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Put a gate in; see HoldsThreads.put_gate."""
        function = self._process.analysis(loaded).function(span)
        points = [[part.start, point.address, int(point.after)]
                  for part, point in places(self._process, loaded, function, where)]  # fmt: skip
        image = [str(loaded.path), loaded.bias]
        words = {"do": "gate", "image": image, "points": points, "gate": gate, "first": 1}
        refused = self._client.say(words).words["refused"]
        if refused or not points:
            raise TargetError("cannot-watch", f"{where} of {span.name} cannot be watched: {', '.join(refused)}")

    def lose(self, loaded: Loaded) -> None:
        """Report an unmapped image; see HoldsThreads.lose."""
        self._lose(loaded)

    def close(self) -> WatchEnd:
        """Take the gate out, and leave the session. Raises GilkError."""
        restored: bool | None = None
        try:
            restored = self._client.close()
        except GilkError as error:
            if error.slug not in ("keeper-gone", "no-such-process"):
                raise
        return WatchEnd(restored, self._client.others_go_on, tuple(self._client.notes))


@dataclass(frozen=True)
class WatchEnd:
    """The end of a watch. ``restored``: whether the process is what it was, None if that is unknown. ``goes_on``:
    others still have a part in it. ``notes`` are for the user."""

    restored: bool | None = None
    goes_on: bool = False
    notes: tuple[str, ...] = ()


def may_come(code: Code, patterns: Iterable[str], known: Sequence[Loaded], launched: bool) -> bool:
    """Whether an image that matches a pattern may be mapped or unmapped later.

    ``known``: the images that are mapped. ``launched``: nothing of the program has run yet, so that all of these are
    linked with it.
    """
    main = next((loaded for loaded in known if loaded.main), None)
    if main is not None and code.image(main.path).static:
        return False
    stay = set(known) if launched else None
    for pattern in patterns:
        if not pattern or pattern in MAIN:
            continue
        meant = [loaded for loaded in known if loaded.is_meant(pattern)]
        if not meant or is_glob(pattern):
            return True
        if stay is None:
            stay = linked(code, known)
        if not stay.issuperset(meant):
            return True
    return False


def linked(code: Code, known: Sequence[Loaded]) -> set[Loaded]:
    """The main program, and the libraries that it is linked with, directly or not: these stay mapped to its end."""
    found = {loaded for loaded in known if loaded.main}
    left = list(found)
    while left:
        needed = code.image(left.pop().path).needed
        fresh = [loaded for loaded in known if loaded not in found and {loaded.soname, loaded.name} & set(needed)]
        found.update(fresh)
        left += fresh
    return found

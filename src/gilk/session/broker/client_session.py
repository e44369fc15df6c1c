# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session of a process that others may have sessions of, too: it asks the broker for changes, and reads memory of
its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gilk.errors import TargetError
from gilk.session.base import Probe
from gilk.session.broker.client import BrokerClient
from gilk.session.broker.messages import Inserted, InsertRequest
from gilk.session.probing import ProbingSession
from gilk.session.request import Wanted
from gilk.session.stream import ALL_CLASSES, Bounds
from gilk.splice.plan import Refusal
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.trace.clock import Clock, calibrate
from gilk.trace.drain import Drain
from gilk.trace.layout import Geometry, Shared

_MOST_POINTS = 1 << 20


class ClientSession(ProbingSession):
    """A set of probes in one process. Use it as a context manager; at its end all its probes are gone from the target.

    ``points``: how many probes there can be in all. ``threads``: how many threads can have buffers at a time. ``ring``:
    bytes of a thread's buffer per record class. ``clock``: the clock for the times of samples; if None, it is measured.
    ``restored`` is None at the end if others still have a part in the process. Dormant probes are planned when they are
    activated.
    """

    def __init__(
        self,
        process: Process,
        points: int = 1 << 18,
        threads: int = 1024,
        ring: int = 4 << 20,
        clock: Clock | None = None,
        classes: frozenset[int] = ALL_CLASSES,
        follows: bool = False,
    ) -> None:
        """``classes``: the record classes that the probes may write. ``follows``: the session follows all calls, which
        only one session of a process can do at a time. Raises TargetError."""
        geometry = Geometry.plan(min(points, _MOST_POINTS), classes, threads, ring)
        self.process, self._geometry = process, geometry
        self._client = BrokerClient(process, geometry.size + geometry.stride)
        try:
            memory = memoryview(self._client.memory)
            geometry.initialise(memory)
            shared = Shared(geometry, memory)
            shared.control["self"] = self._client.open_region(geometry, follows)
            drain = ClientDrain(geometry, memory, self._client)
            super().__init__(drain, clock or calibrate(), process.threads, geometry.counters)
        except BaseException:
            self._client.close()
            raise
        self._caught = 0
        self._wanted: dict[int, Wanted] = {}  # every probe's request, by its number
        self._dormant: set[int] = set()
        self._lost: set[int] = set()  # numbers of probes in images that have been unmapped
        self._stream.bounds = Bounds()
        self._stream.meet(process.pid, process.own_number)

    @property
    def code(self) -> Process:
        return self.process

    def insert_wanted(self, wanted: list[Wanted], active: bool = True) -> tuple[Probe, ...]:
        self._caught = self.process.caught()
        with self._numbered(wanted) as numbers:
            asked = {number: one for number, one in zip(numbers, wanted, strict=True) if one.refusal is None}
            made = self._insert(asked) if active else Inserted({}, {}, 0.0, 0.0)
        self._wanted.update(asked)
        self._know(made.total)
        self._note(made, len(numbers))
        if not active:
            self._dormant.update(asked)
        self._inserted(made, list(asked))
        return self._refuse_unplanned(wanted, numbers)

    def _insert(self, wanted: Mapping[int, Wanted]) -> Inserted:
        return self._client.insert([_request(number, one) for number, one in wanted.items()])

    def _switch(self, numbers: list[int], on: bool) -> None:
        chosen = [number for number in numbers if (number in self._dormant) is on]
        if on and chosen:
            made = self._insert({number: self._wanted[number] for number in chosen})
            self._note(made, 0)
            self._inserted(made, chosen)
            self._dormant.difference_update(chosen)
        elif chosen:
            self._take_out(chosen)
            self._dormant.update(chosen)

    def _take_out(self, numbers: Iterable[int]) -> None:
        """Take the probes out that are in the target."""
        absent = self._dormant | self._lost | self._refused.keys()
        there = [number + 1 for number in numbers if number not in absent]
        if there:
            self._client.remove(there)

    def _inserted(self, made: Inserted, numbers: Sequence[int]) -> tuple[Probe, ...]:
        tactics = {numbers[place]: name for place, name in made.tactics.items()}
        refusals = {numbers[place]: Refusal(why) for place, why in made.refused.items()}
        return self._known_outcomes(tactics, refusals, numbers)

    def remove(self, probes: Iterable[Probe]) -> None:
        numbers = self._numbers(probes)
        self._take_out(numbers)
        self._drop(numbers)
        self._dormant.difference_update(numbers)

    def lose(self, loaded: Loaded) -> None:
        """Note that an image was unmapped, and its probes with it; the session keeps their requests for ``regain``.
        Raises TargetError."""
        planned = self._probes.keys() & self._wanted.keys()
        gone = [number for number in planned if self._wanted[number].loaded == loaded]
        if gone:
            self._client.lose(loaded)
            self._lost.update(gone)

    def regain(self, loaded: Loaded) -> int:
        """Put the probes of an unmapped image in again, after the same file was mapped again; returns how many it had.
        Raises TargetError."""
        numbers = self._lost_of(loaded.path)
        for number in numbers:
            self._wanted[number] = replace(self._wanted[number], loaded=loaded)
        self._lost.difference_update(numbers)
        there = [number for number in numbers if number not in self._dormant]
        made = self._insert({number: self._wanted[number] for number in there})
        self._note(made, 0)
        self._inserted(made, there)
        return len(numbers)

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of an unmapped image that will not come back, because its path is another file now. Their
        counts stay."""
        for number in self._lost_of(loaded.path):
            del self._wanted[number]
            self._dormant.discard(number)

    def _lost_of(self, path: Path) -> list[int]:
        """The numbers of the probes of an unmapped file that may be mapped again."""
        return [n for n in sorted(self._lost & self._wanted.keys()) if self._wanted[n].loaded.path == path]

    def _look_after(self) -> None:
        """Tell the broker if the program has installed signal handlers since the last call."""
        if not self._probes or self.closed:
            return
        caught = self.process.caught()
        if caught not in (0, self._caught):
            self._caught = caught
            try:
                self._client.look()
            except TargetError as error:  # the records that the process left are read all the same
                if error.slug not in ("keeper-gone", "no-such-process", "busy"):
                    raise

    def _restore(self) -> bool | None:
        restored = self._client.close()
        self.goes_on = self._client.others_go_on
        self.notes += self._client.notes
        return restored


def _request(number: int, one: Wanted) -> InsertRequest:
    return InsertRequest(one.loaded, one.function.start, one.point.address, one.point.after, one.planned, number + 1)


class ClientDrain(Drain):
    """The drain of a client's memory. One block more than the session uses takes the hits of threads that found no
    block."""

    def __init__(self, geometry: Geometry, buffer: memoryview, client: BrokerClient) -> None:
        super().__init__(geometry, buffer)
        self._client = client
        behind = Geometry(1, geometry.size, geometry.stride, geometry.counters, geometry.rings)
        self._behind = Shared(behind, buffer)

    def lost(self) -> int:
        """The hits of threads that found no block, in this client's memory and in the session's own."""
        if not self._shared.control["lost"]:
            return self._client.lost
        head = self._behind.heads[0]
        hits = int(self._behind.counters[0].sum()) + int(head["ring"]["drops"].sum())
        return self._client.lost + min(hits, self._possible.in_all)

    def _reopen(self) -> None:
        if self._shared.control["exhausted"]:
            super()._reopen()
            if not self._shared.control["exhausted"]:
                with contextlib.suppress(TargetError):
                    self._client.renew()

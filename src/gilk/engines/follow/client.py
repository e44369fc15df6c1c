# SPDX-License-Identifier: LGPL-2.1-or-later
"""The follower in a process that other sessions may share: its functions are units of the broker's ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.engines.follow.base import BaseFollower
from gilk.engines.follow.means import Activated, Keys, Outcome
from gilk.errors import TargetError
from gilk.session.broker.client_session import ClientSession
from gilk.session.broker.messages import InsertRequest
from gilk.session.broker.transport import Message
from gilk.session.placed import ReadyTiming
from gilk.session.plan_workers import timing_templates
from gilk.session.request import Wanted
from gilk.session.staging import Timed
from gilk.splice.points import Point
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.targets.templates import Shape
from gilk.targets.threads import Threads
from gilk.trace.layout import PAGE
from gilk.trace.parts import OF_TRACE
from gilk.trace.probes import ProbeRow
from gilk.values import dataclass

_STAMPS = frozenset((0,))  # the class of its records
_AT_ONCE = 256  # how many probes the broker plans one by one before it serves other clients


@dataclass(frozen=True, slots=True)
class _Took:
    """The seconds of a change, and how many of these the threads were stopped."""

    total: float
    seconds: float


class ClientFollower(BaseFollower, ClientSession):
    """A ClientSession that can follow. Raises TargetError `trace-alone` if another client follows the process."""

    def __init__(self, process: Process, threads: int = 1024, ring: int = 16 << 20) -> None:
        super().__init__(process, 1, threads, ring, classes=_STAMPS, follows=True)
        self._prepare_to_follow(self._client.memory)

    def name_threads_by(self, threads: Callable[[Threads], Threads]) -> None:
        """Use other names of threads; call it before there are records. ``threads`` gets this machine's, and returns
        the new ones."""
        self._stream.name_by(threads)

    # Making functions ready.

    def _templates(self, images: Sequence[Loaded], told: Progress) -> dict[Path, PlanTemplate]:
        """The templates, made here and put into the cache, where the broker finds them."""
        live = int(self._client.say({"do": "timing"}).words["live"])
        rings = tuple((ring.offset, ring.size) for ring in self._geometry.rings)
        return timing_templates(self.process, images, Shape(PAGE, rings, live, OF_TRACE), told)

    def _place(self, loaded: Loaded, template: PlanTemplate, starts: set[int]) -> tuple[ReadyTiming | None, set[int]]:
        """Place a template. Functions in which others have probes are left: they are planned together with these."""
        first = len(self._everything)
        wanted = np.array(sorted(starts), np.int64)
        answer = self._client.say({"do": "place", **_named(loaded), "first": first}, wanted.tobytes())
        if answer.words["units"] != len(template.unit_start):
            return None, starts
        made = ReadyTiming(loaded, template, first, _bits(answer.content, len(template.unit_start)), 0)
        chosen = template.entered() & ~made.ready
        there = set(template.unit_start[template.unit_owner[chosen]].tolist())
        return made, starts & (made.cramped | there)

    def _put_dormant(self, wanted: Sequence[Wanted], rows: Sequence[ProbeRow]) -> Outcome:
        tactics, refusals = dict[int, str](), dict[int, str]()
        asked = [_request(one, row) for one, row in zip(wanted, rows, strict=True)]
        for some in _in_turn(asked):
            made = self._client.insert(some, dormant=True)
            tactics.update((some[place].number - 1, how) for place, how in made.tactics.items())
            refusals.update((some[place].number - 1, why) for place, why in made.refused.items())
        return tactics, refusals

    # Putting in, and taking out.

    def _copy(self, keys: Keys) -> int:
        return int(self._client.say({"do": "copy"}).words["copies"])

    def _expect(self, keys: Keys, busy: Keys) -> None:
        words = self._client.say({"do": "expect"}, self._mask(keys) + self._mask(busy)).words
        self._carried |= self._functions_of(int(iid) - 1 for iid in words["active"])
        self._give_up(int(iid) - 1 for iid in words["lost"])

    def _start(self) -> Activated:
        return _activated(self._client.say({"do": "begin"}))

    def _activate(self, keys: Keys) -> Activated:
        return _activated(self._client.say({"do": "follow"}, self._mask(keys)))

    def _deactivate(self, keys: Keys) -> Timed:
        return _activated(self._client.say({"do": "unfollow"}, self._mask(keys))).took

    def _mask(self, keys: Keys) -> bytes:
        mask = np.zeros(len(self._everything) + 1, np.bool_)
        mask[keys + 1] = True
        return np.packbits(mask).tobytes()

    def _forget_image(self, loaded: Loaded, number: int) -> None:
        self._client.lose(loaded)

    def _put_gate(
        self, loaded: Loaded, places: Sequence[tuple[Function, Point]], gate: int, first: bool
    ) -> tuple[set[int], list[str]]:
        points = [[part.start, point.address, int(point.after)] for part, point in places]
        words = {"do": "gate", **_named(loaded), "points": points, "gate": gate, "first": int(first)}
        answer = self._client.say(words).words
        return self._functions_of(int(iid) - 1 for iid in answer["carried"]), [str(why) for why in answer["refused"]]

    def _look_after(self) -> None:
        """Have the broker look for signal handlers; unlike a ClientSession, also before there are probes."""
        caught = self.process.caught()
        if not self.closed and caught not in (0, self._caught):
            self._caught = caught
            with contextlib.suppress(TargetError):  # if the process has ended, its records are read all the same
                self._client.look()


def _named(loaded: Loaded) -> dict[str, object]:
    return {"image": [str(loaded.path), loaded.bias]}


def _bits(content: bytes, count: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(content, np.uint8), count=count).astype(np.bool_)


def _request(one: Wanted, row: ProbeRow) -> InsertRequest:
    point = one.point
    return InsertRequest(one.loaded, one.function.start, point.address, point.after, one.instrument, row.iid)


def _in_turn(asked: Sequence[InsertRequest]) -> Iterator[list[InsertRequest]]:
    """The requests in groups, so that the broker can serve others in between; those of one function stay together."""
    some: list[InsertRequest] = []
    for one in asked:
        if len(some) >= _AT_ONCE and one.start != some[-1].start:
            yield some
            some = []
        some.append(one)
    if some:
        yield some


def _activated(answer: Message) -> Activated:
    words = answer.words
    took = _Took(float(words["total"]), float(words["seconds"]))
    return Activated(took, frozenset(int(iid) - 1 for iid in words["lost"]))

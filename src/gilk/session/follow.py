# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session that follows the flow of control: the timing of many functions, made ready and then put in at once.

What is ready lies in patches that nothing leads to, and costs the program
nothing. ``follow`` leads control there, ``leave`` leads it away again, and both
may be done again. A function of which some return cannot be instrumented is
not followed at all: its calls would never end.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.errors import TargetError
from gilk.image.model import Span
from gilk.session.ledger import Entry, Result, Timed
from gilk.session.request import Wanted
from gilk.session.session import Session
from gilk.splice.instrument import CallWithRegisters
from gilk.splice.plan import FunctionPlan, Want
from gilk.splice.planner import Ground, forget, plan
from gilk.splice.points import Point, returns
from gilk.splice.points import points as points_of
from gilk.target.base import Loaded
from gilk.target.batch import Batch
from gilk.target.process import Process
from gilk.trace.drain import Chunk
from gilk.trace.gates import Gates

Unit = tuple[int, int]  # batch, and unit of it
_FIRST_GATE = 1 << 41  # keys of wants that are no probes, and no brackets of signal handlers
_Key = tuple[int, int]  # a ground's id, and the start of a function of it


@dataclass
class Followed:
    """A function whose calls can be followed; ``units`` are what has to be in force for that."""

    name: str
    image: str
    wanted: tuple[tuple[Entry, Want], ...]
    units: tuple[Unit, ...] = ()


@dataclass
class Ready:
    """What is ready: functions by number, and of which of them an iid is the entry."""

    functions: list[Followed] = field(default_factory=list)
    of_iid: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def number(self, iid: int, function: int) -> None:
        if iid >= len(self.of_iid):
            grown = np.full(max(1024, 2 * iid), -1, np.int32)
            grown[: len(self.of_iid)] = self.of_iid
            self.of_iid = grown
        self.of_iid[iid] = function


class Follower(Session):
    """Besides what a Session does. Its gates are how it waits for what the program does."""

    def __init__(self, process: Process, points: int = 1 << 24, threads: int = 1024, ring: int = 16 << 20) -> None:
        super().__init__(process, 1, threads, ring)
        self._capacity = points
        self.gates = Gates(self._workspace.data)
        self.ready = Ready()
        self.followed: set[int] = set()  # numbers of the functions in force
        self._plans: dict[Unit, tuple[Entry, FunctionPlan]] = {}
        self._owner: dict[_Key, int] = {}
        self._gate_key = _FIRST_GATE
        self._lively: set[int] = set()  # functions that the ledger carries: in force all the time
        self._unfit: set[int] = set()
        self._ready_batches: list[Batch] = []

    # Making ready.

    def prepare(self, functions: Iterable[list[Wanted]]) -> list[int]:
        """Plan and stage the timing of functions, each given by its entry and its returns; their numbers."""
        groups = [group for group in functions if group]
        self._look_after()
        wanted = [one for group in groups for one in group]
        with self._numbered(wanted) as numbers:
            iterator = iter(numbers)
            fresh = [self._followed(group, [next(iterator) for _ in group]) for group in groups]
        self._know(0.0)
        self.totals.asked += len(wanted)
        ready = [n for n in fresh if not self._carried(n)]
        self._stage(ready)
        for number in set(fresh) - set(ready):
            self._enliven(number)
        return fresh

    @property
    def latest(self) -> list[Chunk]:
        """What the last ``take`` took."""
        return self._stream.latest

    def _followed(self, group: list[Wanted], numbers: list[int]) -> int:
        number = len(self.ready.functions)
        wants = tuple(self._want(key, wanted) for key, wanted in zip(numbers, group, strict=True))
        self.ready.functions.append(Followed(group[0].point.function, group[0].point.image, wants))
        self.ready.number(numbers[0] + 1, number)
        for entry, _ in wants:
            self._owner.setdefault(_key(entry), number)
        return number

    def _carried(self, number: int) -> bool:
        """The ledger has instruments in the function: it plans all of it."""
        return any(entry.wants for entry, _ in self.ready.functions[number].wanted)

    def _stage(self, numbers: list[int]) -> None:
        by_ground: dict[int, list[int]] = {}
        for number in numbers:
            by_ground.setdefault(id(self.ready.functions[number].wanted[0][0].ground), []).append(number)
        for some in by_ground.values():
            self._stage_image(some)

    def _stage_image(self, numbers: list[int]) -> None:
        wants: dict[int, tuple[Entry, list[Want]]] = {}
        for number in numbers:
            for entry, want in self.ready.functions[number].wanted:
                wants.setdefault(id(entry), (entry, []))[1].append(want)
        entries = sorted(wants.values(), key=lambda item: -item[0].function.start)
        made = plan(entries[0][0].ground, [(entry.function, some) for entry, some in entries])
        batch, packed = self._workspace.stage(made)
        self._ready_batches.append(packed)
        units = {}
        for unit, ((entry, _), function_plan) in enumerate(zip(entries, made.functions, strict=True)):
            self._plans[batch, unit] = entry, function_plan
            units[id(entry)] = batch, unit
        for number in numbers:
            followed = self.ready.functions[number]
            followed.units = tuple({units[id(entry)]: None for entry, _ in followed.wanted})
            if any(self._plans[unit][1].refusals for unit in followed.units):
                self._unfit.add(number)

    def _enliven(self, number: int) -> None:
        """Have the ledger carry the function, with whatever else it has there; it is in force from now on."""
        followed = self.ready.functions[number]
        followed.units = ()
        self._lively.add(number)
        self.insert_made(list(followed.wanted))

    def insert_made(self, wants: list[tuple[Entry, Want]]) -> Result:
        """Instruments that are no probes of their own, put in at once."""
        result = self._add(wants)
        self._note(result.outcome, 0)
        return result

    def copy_code(self) -> int:
        """Prepare for ``follow`` to lead control to all that is ready in one exchange of code; see target/copies.py."""
        fit = [number for number in range(len(self.ready.functions)) if self._whole(number)]
        return self.process.copy_code(_by_batch(self._units(fit)))

    # Putting in, and taking out.

    def follow(self, numbers: Iterable[int]) -> Timed:
        """Follow these functions from now on."""
        chosen = [n for n in numbers if n not in self.followed and self._whole(n)]
        outcome = self._change([], self._units(chosen))
        self.followed.update(chosen)
        self._note(outcome, 0)
        return outcome

    def leave(self, numbers: Iterable[int] | None = None) -> Timed:
        """Do not follow these any more; any, when ``numbers`` is None."""
        chosen = list(self.followed) if numbers is None else [n for n in numbers if n in self.followed]
        outcome = self._change(self._units(chosen), [])
        self.followed.difference_update(chosen)
        carried = [want.key for n in chosen if n in self._lively for _, want in self.ready.functions[n].wanted]
        if carried and numbers is not None:
            self._ledger.remove(carried)
        return outcome

    def _units(self, numbers: list[int]) -> list[Unit]:
        return [unit for n in numbers for unit in self.ready.functions[n].units]

    def _change(self, remove: list[Unit], add: list[Unit]) -> Timed:
        self._ledger.before_change()
        return self.process.keeper.change(_by_batch(remove), _by_batch(add))

    @property
    def unfit(self) -> int:
        """How many of the functions made ready cannot be followed."""
        return len(self._unfit)

    def _whole(self, number: int) -> bool:
        return number not in self._unfit

    def put_gate(self, loaded: Loaded, span: Span, where: str, gate: int) -> None:
        """Have ``gates`` know when control is at the ``entry``, or the ``return``, of a function.

        A gate at the entry is met before the call is recorded, one at a return after it.
        Raises TargetError `cannot-watch` where the point cannot be instrumented.
        """
        ground = self._workspace.ground(loaded, self.process.analysis(loaded))
        function = ground.analysis.function(span)
        instrument = CallWithRegisters(self._workspace.runtime_address(ground, "gilk_gate_reached"), gate, False)
        wants = []
        for part, point in _places(ground, function, where):
            self._gate_key += 1
            wants.append(
                (self._ledger.entry(ground, part), Want(point.address, point.after, instrument, self._gate_key))
            )
        owner = self._owner.get(_key(self._ledger.entry(ground, function)))
        timing = self._release(owner) if owner is not None and owner not in self._lively else []
        result = self.insert_made([*wants, *timing] if where == "entry" else [*timing, *wants])
        reasons = [str(why) for made in result.plans for key, why in made.refusals.items() if key >= _FIRST_GATE]
        if reasons or not wants:
            why = f"it is refused: {reasons[0]}" if reasons else "there is no such point"
            raise TargetError("cannot-watch", f"{where} of {function.name} cannot be watched; {why}")

    # What the ledger is to carry, whatever had been made ready there.

    def _look_after(self) -> None:
        """Handlers of signals, as a Session does; here also before there is any probe."""
        with contextlib.suppress(TargetError):
            wants = self._handlers() if not self.closed else []
            if wants:
                self._add(wants)

    def _batches(self) -> list[Batch]:
        return [*super()._batches(), *self._ready_batches]

    def _handlers(self) -> list[tuple[Entry, Want]]:
        wants = super()._handlers()
        for entry, _ in wants:
            number = self._owner.get(_key(entry))
            if number is not None and number not in self._lively:
                wants += self._release(number)
        return wants

    def _release(self, number: int) -> list[tuple[Entry, Want]]:
        """Give a function that was made ready to the ledger: its wants, if they are in force."""
        followed = self.ready.functions[number]
        inforce = number in self.followed
        if inforce:
            self._change(list(followed.units), [])
        for unit in followed.units:
            entry, made = self._plans.pop(unit)
            forget(entry.ground, made)
        followed.units = ()
        self._lively.add(number)
        return list(followed.wanted)

    def tactics(self) -> dict[str, int]:
        counted = Counter(str(t) for _, made in self._plans.values() for t in made.tactics.values())
        return dict(counted + Counter(super().tactics()))

    def refusals(self) -> dict[str, int]:
        counted = Counter(str(r) for _, made in self._plans.values() for r in made.refusals.values())
        return dict(counted + Counter(super().refusals()))


def _places(ground: Ground, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
    image = ground.analysis.image
    if where == "return":
        return returns(image, ground.analysis, function)
    return ((function, point) for point in points_of(image, ground.analysis, function, where))


def _key(entry: Entry) -> _Key:
    return id(entry.ground), entry.function.start


def _by_batch(units: list[Unit]) -> dict[int, set[int]]:
    result: dict[int, set[int]] = {}
    for batch, unit in units:
        result.setdefault(batch, set()).add(unit)
    return result

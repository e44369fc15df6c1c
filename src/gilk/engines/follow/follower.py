# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session that follows the flow of control: the timing of many functions, made ready and then put in at once.

The patches of ready functions lie where nothing leads to them, and cost the program nothing. ``follow`` leads control
there, ``leave`` leads it away again, and both may be done again. A function is followed although some return cannot be
instrumented: a call that leaves by it is closed by its caller. Without its entry a function is not followed at all.

Functions go by numbers, in the order in which their images were made ready.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gilk.analysis.model import Function
from gilk.engines.follow.callers import callers
from gilk.engines.follow.functions import Functions, of_plans, of_template, place_timing
from gilk.engines.follow.scope import TraceScope, calls
from gilk.errors import GilkError, TargetError
from gilk.image.model import FunctionSpan
from gilk.session.entry import Entry
from gilk.session.plan_workers import timing_templates
from gilk.session.session import InForce, Session
from gilk.session.staging import ChangeResult, Timed
from gilk.splice import points
from gilk.splice.instrument import CallWithRegisters
from gilk.splice.plan import Want
from gilk.splice.points import Point
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded, Target
from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk
from gilk.trace.gates import Gates
from gilk.trace.traced import Unended, Unfollowed
from gilk.values import dataclass

_FIRST_GATE = 1 << 41  # keys of wants that are no probes, and no brackets of signal handlers
_MOST = 1 << 24  # probes
_TRIES = 8  # to follow what a program unmaps and maps again meanwhile


@dataclass(frozen=True)
class Followed:
    """A function by name."""

    name: str
    image: str


class Follower(Session):
    """Besides what a Session does. Its gates are how it waits for what the program does.

    ``of_iid``: by iid, the number of the function whose entry it is; -1 for others.
    """

    def __init__(self, process: Target, threads: int = 1024, ring: int = 16 << 20, clock: Clock | None = None) -> None:
        super().__init__(process, 1, threads, ring, clock)
        self._capacity = _MOST
        self.gates = Gates(self._workspace.data)
        self.followed: set[int] = set()  # what is in force
        self.of_iid: NDArray[np.int64] = np.full(1, -1, np.int64)
        self._made: list[Functions] = []
        self._base = [0]  # number of the first function of each, and the one after the last
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)  # of all functions, one function behind the other
        self._edges: NDArray[np.int64] = np.zeros(1, np.int64)  # where those of each function begin, and the end
        self._of_key: NDArray[np.int64] = np.empty(0, np.int64)  # the function of each key; -1 for others
        self._carried: set[int] = set()  # functions that are in force all the time, along with something else
        self._gate_key = _FIRST_GATE
        self._expected: frozenset[int] | None = None  # the keeper has them ready
        self._ranks: dict[int, int] = {}  # of a gate's key: whether it is before what else is at its point, or behind

    # Making ready.

    def prepare(
        self, images: Sequence[Loaded], scope: TraceScope, told: Progress = lambda done, of: None
    ) -> tuple[range, list[str]]:
        """Have the functions of images that are in ``scope`` ready: their numbers, and what went wrong.

        Raises TargetError, CompileError.
        """
        self._look_after()
        before = self.functions
        templates = timing_templates(self.process, images, self._workspace.shape, told)
        left = {loaded: self._place(loaded, templates.get(loaded.path), scope) for loaded in images}
        trouble = [
            trouble for loaded, starts in left.items() if starts and (trouble := self._plan(loaded, scope, starts))
        ]
        self._know(0.0)
        return range(before, self.functions), trouble

    def _place(self, loaded: Loaded, template: PlanTemplate | None, scope: TraceScope) -> set[int]:
        """Have those functions of an image dormant that are in its template; the starts of those that are left."""
        spans = self.process.image(loaded.path).spans
        starts = {span.start for span in spans if scope.takes(loaded, (span.name, *span.aliases))}
        made = template and place_timing(self._workspace, loaded, template, len(self._everything), starts)
        if not made:
            return starts
        self._ledger.hold(made)
        cramped = starts & made.cramped
        self._take(of_template(made, starts - cramped))
        return cramped

    def _take(self, made: Functions) -> None:
        base = self.functions
        self._expected = None
        self._made.append(made)
        self._base.append(base + len(made.names))
        self._everything += made.rows
        self.totals.asked += made.asked
        count, numbers = len(self._everything), np.arange(base, base + len(made.names))
        self.of_iid = _grown(self.of_iid, count + 1)
        self.of_iid[made.entries] = numbers
        self._of_key = _grown(self._of_key, count)
        self._of_key[made.keys] = np.repeat(numbers, made.sizes)
        self._edges = np.concatenate((self._edges, len(self._keys) + np.cumsum(made.sizes)))
        self._keys = np.concatenate((self._keys, made.keys))

    def _plan(self, loaded: Loaded, scope: TraceScope, starts: set[int]) -> str:
        """The functions that begin there, for want of better; what went wrong, '' for nothing."""
        try:
            groups = list(calls(self.process, loaded, scope, starts))
            if groups:
                wanted = [one for group in groups for one in group]
                rows = [self._row(number, one) for number, one in enumerate(wanted, len(self._everything))]
                wants = [self._want(row.iid - 1, one) for row, one in zip(rows, wanted, strict=True)]
                made = self._ledger.add(wants, active=False)
                self._take(of_plans(loaded, groups, rows, made.plans))
        except GilkError as error:
            return f"{loaded.name} is not followed: {error}"
        return ""

    @property
    def functions(self) -> int:
        """How many are ready."""
        return self._base[-1]

    @property
    def unfit(self) -> int:
        """How many in the scope cannot be followed."""
        return sum(len(made.unfit) for made in self._made)

    def unfollowed(self) -> Iterator[Unfollowed]:
        """The functions that are not followed, by name, each with its callers in the same image."""
        for made in self._made:
            if made.unfit:
                analysis = self.process.analysis(made.loaded)
                found = callers(analysis, {one.start for one in made.unfit})
                for one in made.unfit:
                    yield Unfollowed(one.name, made.loaded.name, one.reason, found[one.start])

    def unended(self) -> Iterator[Unended]:
        """Functions of which not all returns are recorded."""
        for made in self._made:
            yield from (Unended(one.name, made.loaded.name, one.reason) for one in made.unended)

    def function(self, number: int) -> Followed:
        made, function = self._at(number)
        return Followed(made.names[function], made.loaded.name)

    def _at(self, number: int) -> tuple[Functions, int]:
        which = bisect_right(self._base, number) - 1
        while not self._made[which].names:
            which += 1
        return self._made[which], number - self._base[which]

    @property
    def latest(self) -> list[Chunk]:
        """The chunks of the last ``take``."""
        return self._stream.latest

    # Putting in, and taking out.

    def copy_code(self) -> int:
        """Prepare for ``follow`` to lead control to all that is ready in one exchange of code (targets/copies.py)."""
        return self.process.copy_code(self._ledger.units(self._keys_of(range(self.functions))))

    def expect(self, numbers: Iterable[int], busy: Iterable[int] = ()) -> None:
        """``begin`` will be asked for, of these: do beforehand what can be. Nothing is followed yet.

        ``busy``: functions that are called often, among these or not.
        """
        chosen = frozenset(numbers)
        units = self._ledger.expect(self._keys_of(chosen))
        self.process.keeper.expect(units, self._ledger.units(self._keys_of(busy)))
        self._expected = chosen

    @property
    def expects(self) -> bool:
        """Whether expected functions are ready, and no other change has come in between."""
        return self._expected is not None and self._ledger.expects

    def begin(self) -> Timed:
        """Follow what is expected."""
        assert self._expected is not None
        try:
            outcome = self._ledger.begin(self.process.keeper.begin)
        except TargetError as error:
            if error.slug != "code-changed":
                raise
            return self.follow(self._expected)
        self.followed |= self._expected
        self._note(outcome, 0)
        return outcome

    def follow(self, numbers: Iterable[int]) -> Timed:
        """Follow these functions from now on, but for those of images that were unmapped meanwhile."""
        chosen = frozenset(numbers) - self.followed
        for left in reversed(range(_TRIES)):
            try:
                outcome = self._ledger.activate(self._keys_of(chosen)).outcome
                break
            except TargetError as error:
                if error.slug != "code-changed" or not left:
                    raise
                chosen -= self._lose_unmapped()  # none, if it has been mapped again by now: then it is whole
        self.followed |= chosen
        self._note(outcome, 0)
        return outcome

    def leave(self, numbers: Iterable[int] | None = None) -> Timed:
        """Do not follow these any more; any, when ``numbers`` is None."""
        chosen = set(self.followed) if numbers is None else self.followed & set(numbers)
        outcome = self._ledger.deactivate(self._keys_of(chosen)).outcome
        self.followed -= chosen
        return outcome

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped: what comes to lie there is another, or the same once more, to be made ready."""
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded == loaded:
                if not self.followed.isdisjoint(range(base, base + len(made.names))):
                    self.leave(range(base, base + len(made.names)))
                self._ledger.lose(made.number)

    def _lose_unmapped(self) -> frozenset[int]:
        """The functions of images that are not there any more."""
        present, numbers = set(self.process.loaded()), set[int]()
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded not in present:
                self.lose(made.loaded)
                numbers.update(range(base, base + len(made.names)))
        return frozenset(numbers)

    def _keys_of(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        """The keys of the functions' probes, but for those that are carried all the time."""
        order = np.array(sorted(set(numbers) - self._carried), np.int64)
        if len(order) == self.functions:
            return self._keys
        low, size = self._edges[order], np.diff(self._edges)[order]
        keys: NDArray[np.int64] = self._keys[np.repeat(low - np.cumsum(size) + size, size) + np.arange(size.sum())]
        return keys

    # Functions that carry something else as well.

    def carries(self, number: int) -> bool:
        """The function is recorded all the time, whether it is followed or not: something else waits at it."""
        return number in self._carried

    def _put(self, wants: list[tuple[Entry, Want]]) -> ChangeResult:
        """Functions that get something else are in force from then on."""
        keys = [key for entry, _ in wants for key in entry.wants if key < len(self._of_key)]
        numbers = set(self._of_key[keys].tolist()) - {-1}
        result = self._ledger.add(wants, along=self._keys_of(numbers), rank=lambda key: self._ranks.get(key, 0))
        self._carried |= numbers
        return result

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Have ``gates`` know when control is at the ``entry``, or the ``return``, of a function.

        A gate at the entry is met before the call is recorded, one at a return after it.
        Raises TargetError `cannot-watch` where the point cannot be instrumented.
        """
        ground = self._workspace.ground(loaded, self.process.analysis(loaded))
        function = ground.analysis.function(span)
        instrument = CallWithRegisters(self._workspace.runtime_address(ground, "gilk_gate_reached"), gate, False)
        wants = []
        for part, point in self._places(loaded, function, where):
            self._gate_key += 1
            self._ranks[self._gate_key] = -1 if where == "entry" else 1
            want = Want(point.address, point.after, instrument, self._gate_key)
            wants.append((self._ledger.entry(ground, part), want))
        result = self._add(wants)
        self._note(result.outcome, 0)
        reasons = [str(why) for made in result.plans for key, why in made.refusals.items() if key >= _FIRST_GATE]
        if reasons or not wants:
            why = f"it is refused: {reasons[0]}" if reasons else "there is no such point"
            raise TargetError("cannot-watch", f"{where} of {function.name} cannot be watched; {why}")

    def _places(self, loaded: Loaded, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
        image, analysis = self.process.image(loaded.path), self.process.analysis(loaded)
        if where == "return":
            return points.returns(image, analysis, function)
        return ((function, point) for point in points.points(image, analysis, function, where))

    def _look_after(self) -> None:
        """Handlers of signals, as a Session does; here also before there is any probe."""
        with contextlib.suppress(TargetError):
            wants = self._handlers() if not self.closed else []
            if wants:
                self._add(wants)

    def _in_force(self) -> InForce:
        """Also what is dormant, since it comes and goes all the time."""
        return self._ledger.held

    def tactics(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[0]) for made in self._made), Counter(super().tactics())))

    def refusals(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[1]) for made in self._made), Counter(super().refusals())))


def _grown(numbers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """With -1 for what there is more."""
    return np.concatenate((numbers, np.full(size - len(numbers), -1, np.int64)))

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
from gilk.errors import GilkError, TargetError
from gilk.image.model import Span
from gilk.session.follow import repository
from gilk.session.follow.callers import callers
from gilk.session.follow.made import FromRepository, Made, Planned
from gilk.session.follow.scope import TraceScope, calls
from gilk.session.ledger import Entry, Timed
from gilk.session.session import InForce, Session
from gilk.splice import points
from gilk.splice.capture import Progress
from gilk.splice.instrument import CallWithRegisters
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.splice.points import Point
from gilk.splice.policy import BESIDE
from gilk.target.base import Loaded, Target
from gilk.target.batch import Batch
from gilk.trace.clock import Clock
from gilk.trace.drain import Chunk
from gilk.trace.gates import Gates
from gilk.trace.traced import Unended, Unfollowed
from gilk.values import dataclass

_FIRST_GATE = 1 << 41  # keys of wants that are no probes, and no brackets of signal handlers
_MOST = 1 << 24  # probes
_TRIES = 8  # to follow what a program unmaps and maps again meanwhile
Units = dict[int, set[int]]


@dataclass(frozen=True)
class Followed:
    """A function by name."""

    name: str
    image: str


class Follower(Session):
    """Besides what a Session does. Its gates are how it waits for what the program does.

    ``of_iid``: by iid, the number of the function whose entry it is; -1 for others.
    """

    def __init__(
        self, process: Target, threads: int = 1024, ring: int = 16 << 20, clock: Clock | None = None
    ) -> None:
        super().__init__(process, 1, threads, ring, clock)
        self._capacity = _MOST
        self.gates = Gates(self._workspace.data)
        self.followed: set[int] = set()  # what is in force
        self.of_iid: NDArray[np.int64] = np.full(1, -1, np.int64)
        self._made: list[Made] = []
        self._base = [0]  # number of the first function of each, and the one after the last
        self._lively: set[int] = set()  # functions that the ledger carries, along with something else
        self._starts: dict[tuple[str, int], int] = {}
        self._gate_key = _FIRST_GATE
        self._expected: frozenset[int] | None = None  # the keeper has them ready
        self._rank: dict[int, int] = {}  # of a gate's key: whether it is before what else is at its point, or behind

    # Making ready.

    def prepare(
        self, images: Sequence[Loaded], scope: TraceScope, told: Progress = lambda done, of: None
    ) -> tuple[range, list[str]]:
        """Have the functions of images that are in ``scope`` ready: their numbers, and what went wrong.

        Raises TargetError, CompileError.
        """
        self._look_after()
        before = self.functions
        accepted: dict[Loaded, set[int]] = {loaded: set() for loaded in images}

        def wanted(loaded: Loaded, span: Span) -> bool:
            taken = scope.takes(loaded, (span.name, *span.aliases))
            if taken:
                accepted[loaded].add(span.start)
            return taken

        first = len(self._everything) + 1
        readied = repository.ready(self.process, self._workspace, images, wanted, first, told)
        left = {loaded: accepted[loaded] for loaded in readied.left}
        for prepared in readied.prepared:
            cramped = accepted[prepared.loaded] & prepared.cramped
            self._take(FromRepository(prepared, self._workspace, accepted[prepared.loaded] - cramped))
            if cramped:
                left[prepared.loaded] = cramped
        trouble = [trouble for loaded, starts in left.items() if (trouble := self._plan(loaded, scope, starts))]
        self._know(0.0)
        return range(before, self.functions), trouble

    def _take(self, made: Made) -> None:
        base = self.functions
        self._expected = None
        self._made.append(made)
        self._base.append(base + len(made.names))
        self._everything += made.rows
        self.totals.asked += made.asked
        iids, functions = made.entries
        grown = np.full(len(self._everything) + 1, -1, np.int64)
        grown[: len(self.of_iid)] = self.of_iid
        grown[iids] = np.where(functions >= 0, functions + base, -1)
        self.of_iid = grown
        self._starts.update(((str(made.loaded.path), start), base + n) for start, n in made.starts.items())

    def _plan(self, loaded: Loaded, scope: TraceScope, starts: set[int]) -> str:
        """The functions that begin there, for want of better; what went wrong, '' for nothing."""
        try:
            groups = list(calls(self.process, loaded, scope, starts))
            if groups:
                ground = self._workspace.ground(loaded, self.process.analysis(loaded))
                ground.policy = BESIDE
                first = len(self._everything)
                wanted = [one for group in groups for one in group]
                rows = [self._row(first + number, one) for number, one in enumerate(wanted)]
                self._take(Planned(loaded, ground, self._workspace, groups, rows))
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

    def _at(self, number: int) -> tuple[Made, int]:
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
        """Prepare for ``follow`` to lead control to all that is ready in one exchange of code; see target/copies.py."""
        return self.process.copy_code(self._units(range(self.functions)))

    def expect(self, numbers: Iterable[int], busy: Iterable[int] = ()) -> None:
        """``begin`` will be asked for, of these: do beforehand what can be. Nothing is followed yet.

        ``busy``: functions that are called often, among these or not.
        """
        chosen = frozenset(numbers)
        self._ledger.on_change()
        self.process.keeper.expect(self._units(chosen), self._units(busy))
        self._expected = chosen

    @property
    def expects(self) -> bool:
        """Whether expected functions are ready, and no other change has come in between."""
        return self._expected is not None

    def begin(self) -> Timed:
        """Follow what is expected."""
        assert self._expected is not None
        try:
            outcome = self.process.keeper.begin()
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
                outcome = self._change({}, self._units(chosen))
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
        outcome = self._change(self._units(chosen), {})
        self.followed -= chosen
        return outcome

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped: what comes to lie there is another, or the same once more, to be made ready."""
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded == loaded:
                if not self.followed.isdisjoint(range(base, base + len(made.names))):
                    self.leave(range(base, base + len(made.names)))
                self._starts = {key: n for key, n in self._starts.items() if not base <= n < base + len(made.names)}

    def _lose_unmapped(self) -> frozenset[int]:
        """The functions of images that are not there any more."""
        present, numbers = set(self.process.loaded()), set[int]()
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded not in present:
                self.lose(made.loaded)
                numbers.update(range(base, base + len(made.names)))
        return frozenset(numbers)

    def _units(self, numbers: Iterable[int]) -> Units:
        """The units that have to be in force for the functions ``numbers``, besides those of the ledger."""
        order = np.array(sorted(set(numbers) - self._lively), np.int64)
        edges = np.searchsorted(order, self._base)
        units = {
            made.number: made.units((order[low:high] - base).tolist())
            for made, base, low, high in zip(self._made, self._base, edges, edges[1:], strict=False)
        }
        return {number: some for number, some in units.items() if some}

    def _change(self, remove: Units, add: Units) -> Timed:
        self._ledger.on_change()
        return self.process.keeper.change(remove, add)

    # What the ledger carries, along with something else.

    def carries(self, number: int) -> bool:
        """The function is recorded all the time, whether it is followed or not: something else waits at it."""
        return number in self._lively

    def put_gate(self, loaded: Loaded, span: Span, where: str, gate: int) -> None:
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
            self._rank[self._gate_key] = -1 if where == "entry" else 1
            want = Want(point.address, point.after, instrument, self._gate_key)
            wants.append((self._ledger.entry(ground, part), want))
        timing = [carried for entry, _ in wants for carried in self._release(entry)]
        result = self._add(self._in_order([*wants, *timing]))
        self._note(result.outcome, 0)
        reasons = [str(why) for made in result.plans for key, why in made.refusals.items() if key >= _FIRST_GATE]
        if reasons or not wants:
            why = f"it is refused: {reasons[0]}" if reasons else "there is no such point"
            raise TargetError("cannot-watch", f"{where} of {function.name} cannot be watched; {why}")

    def _in_order(self, fresh: list[tuple[Entry, Want]]) -> list[tuple[Entry, Want]]:
        """``fresh`` with all that their functions carry already: probes at one point are met in the order in which they
        were added."""
        carried = []
        for entry in {id(entry): entry for entry, _ in fresh}.values():
            carried += [(entry, want) for want in entry.wants.values()]
            entry.wants.clear()
        return sorted([*carried, *fresh], key=lambda item: self._rank.get(item[1].key, 0))

    def _places(self, loaded: Loaded, function: Function, where: str) -> Iterator[tuple[Function, Point]]:
        image, analysis = self.process.image(loaded.path), self.process.analysis(loaded)
        if where == "return":
            return points.returns(image, analysis, function)
        return ((function, point) for point in points.points(image, analysis, function, where))

    def _release(self, entry: Entry) -> list[tuple[Entry, Want]]:
        """The wants of a function that was ready and is to be planned with others, to be in force from then on.

        Also those of functions whose puns share bytes with its code, since the puns are to find the new bytes.
        """
        carried, todo = list[tuple[Entry, Want]](), {entry.start}
        while todo:
            start = todo.pop()
            number = self._starts.get((str(entry.ground.analysis.image.path), start))
            if number is not None and number not in self._lively:
                found = self._give_up(number, entry.ground)
                carried += found
                todo |= {each.start for each, _ in found}
            todo |= self._sharing(entry.ground, start)
        return carried

    def _sharing(self, ground: PatchContext, start: int) -> set[int]:
        """Functions that are ready, or parts of them, of which a pun shares bytes of the one that begins there."""
        image = ground.analysis.image
        span, path = image.span_at(start), str(image.path)
        assert span is not None
        numbers = {
            base + n
            for made, base in zip(self._made, self._base, strict=False) if str(made.loaded.path) == path
            for n in made.sharing(span.start, span.end)
        } - self._lively  # fmt: skip
        return {at for (where, at), number in self._starts.items() if number in numbers and where == path}

    def _give_up(self, number: int, ground: PatchContext) -> list[tuple[Entry, Want]]:
        """Have the ledger carry what a function carries, instead of what was made ready."""
        if number in self.followed:
            self._change(self._units([number]), {})
        self._lively.add(number)
        self._expected = None
        made, function = self._at(number)
        analysis = self.process.analysis(made.loaded)
        carried = []
        for start, want in made.give_up(function):
            span = self.process.image(made.loaded.path).span_at(start)
            if span is not None:
                carried.append((self._ledger.entry(ground, analysis.function(span)), want))
        return carried

    def _handlers(self) -> list[tuple[Entry, Want]]:
        wants = super()._handlers()
        return wants + [carried for entry, _ in wants for carried in self._release(entry)]

    def _look_after(self) -> None:
        """Handlers of signals, as a Session does; here also before there is any probe."""
        with contextlib.suppress(TargetError):
            wants = self._handlers() if not self.closed else []
            if wants:
                self._add(wants)

    def _batches(self) -> list[Batch]:
        return [*super()._batches(), *(made.batch for made in self._made)]

    def _in_force(self) -> InForce:
        """Whatever is ready, since it comes and goes all the time."""
        return [*super()._in_force(), *((made.batch, None) for made in self._made)]

    def tactics(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[0]) for made in self._made), Counter(super().tactics())))

    def refusals(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[1]) for made in self._made), Counter(super().refusals())))

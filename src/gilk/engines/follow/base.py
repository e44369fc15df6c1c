# SPDX-License-Identifier: LGPL-2.1-or-later
"""A session that follows the flow of control: the timing of many functions, made ready and then put in at once.

The patches of ready functions lie where nothing leads to them, and cost the program nothing. ``follow`` leads control
there, ``leave`` leads it away again, and both may be done again. A function is followed although some return cannot be
instrumented: a call that leaves by it is closed by its caller. Without its entry a function is not followed at all.

Functions go by numbers, in the order in which their images were made ready.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gilk.engines.follow.callers import callers
from gilk.engines.follow.functions import Functions, of_plans, of_template
from gilk.engines.follow.means import Activated, FollowingMeans, Keys
from gilk.engines.follow.scope import TraceScope, calls
from gilk.errors import GilkError, TargetError
from gilk.image.model import FunctionSpan
from gilk.session import libraries
from gilk.session.probing import ProbingSession
from gilk.session.staging import Timed
from gilk.splice.plan import Refusal
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded
from gilk.trace.drain import Chunk
from gilk.trace.gates import Gates
from gilk.trace.probes import ProbeRow
from gilk.trace.traced import Unended, Unfollowed
from gilk.values import dataclass

_MOST = 1 << 24  # probes
_TRIES = 8  # to follow what a program unmaps and maps again meanwhile


@dataclass(frozen=True)
class Followed:
    """A function by name."""

    name: str
    image: str


class BaseFollower(FollowingMeans, ProbingSession):
    """Besides what a session does. Its gates are how it waits for what the program does.

    ``of_iid``: by iid, the number of the function whose entry it is; -1 for others.
    """

    def _prepare_to_follow(self, gates: Any) -> None:
        """``gates``: the memory that has them. Once, when the session is open."""
        self._capacity = _MOST
        self.gates = Gates(gates)
        self.followed: set[int] = set()  # what is in force
        self.gone: set[Loaded] = set()  # images that were unmapped before they were ready
        self.of_iid: Keys = np.full(1, -1, np.int64)
        self._made: list[Functions] = []
        self._base = [0]  # number of the first function of each, and the one after the last
        self._keys: Keys = np.empty(0, np.int64)  # of all functions, one function behind the other
        self._edges: Keys = np.zeros(1, np.int64)  # where those of each function begin, and the end
        self._of_key: Keys = np.empty(0, np.int64)  # the function of each key; -1 for others
        self._carried: set[int] = set()  # functions that are in force all the time, along with something else
        self._late: set[int] = set()  # functions of which it showed when they were to be followed that they cannot be
        self._expected: frozenset[int] | None = None

    @property
    def expects(self) -> bool:
        """Whether expected functions are ready, and no other change has come in between."""
        return self._expected is not None

    # Making ready.

    def prepare(
        self, images: Sequence[Loaded], scope: TraceScope, told: Progress = lambda done, of: None
    ) -> tuple[range, list[str]]:
        """Have the functions of images that are in ``scope`` ready: their numbers, and what went wrong. Images that
        have been unmapped meanwhile are in ``gone``.

        Raises TargetError, CompileError.
        """
        self._look_after()
        before = self.functions
        templates = self._templates(images, told)
        left = {loaded: self._take_template(loaded, templates.get(loaded.path), scope) for loaded in images}
        trouble = [trouble for loaded, starts in left.items() if starts and (trouble := self._plan(loaded, starts))]
        self._know(0.0)
        return range(before, self.functions), trouble

    def _take_template(self, loaded: Loaded, template: PlanTemplate | None, scope: TraceScope) -> set[int]:
        """Have those functions of an image dormant that are in its template; the starts of those that are left."""
        starts = scope.starts(loaded, self.code.image(loaded.path))
        if template is None:
            return starts
        try:
            made, left = self._place(loaded, template, starts)
        except TargetError as error:
            if error.slug != "image-gone":
                raise
            self.gone.add(loaded)
            return set()
        if made is not None:
            self._take(of_template(made, starts - left))
        return left

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

    def _plan(self, loaded: Loaded, starts: set[int]) -> str:
        """The functions that begin there, for want of better; what went wrong, '' for nothing."""
        rows: list[ProbeRow] = []
        try:
            groups = list(calls(self.code, loaded, starts))
            if groups:
                wanted = [one for group in groups for one in group]
                rows = [self._row(number, one) for number, one in enumerate(wanted, len(self._everything))]
                tactics, refusals = self._put_dormant(wanted, rows)
                self._take(of_plans(loaded, groups, rows, tactics, refusals))
        except GilkError as error:
            self._everything += rows  # some may be there, dormant: their numbers are taken
            self.gone.update({loaded} if error.slug == "image-gone" else ())
            return f"{loaded.name} is not followed: {error}"
        return ""

    @property
    def names(self) -> Iterator[tuple[Loaded, list[str]]]:
        """The functions that are ready, by image."""
        return ((made.loaded, made.names) for made in self._made)

    @property
    def functions(self) -> int:
        """How many are ready."""
        return self._base[-1]

    @property
    def unfit(self) -> int:
        """How many in the scope cannot be followed."""
        return sum(len(made.unfit) for made in self._made) + len(self._late)

    def unfollowed(self) -> Iterator[Unfollowed]:
        """The functions that are not followed, by name, each with its callers in the same image."""
        for made, base in zip(self._made, self._base, strict=False):
            late = [number - base for number in sorted(self._late) if base <= number < base + len(made.names)]
            lacking = [(one.start, one.name, one.reason) for one in made.unfit]
            lacking += [(made.starts[n], made.names[n], str(Refusal.IN_ANOTHERS_WAY)) for n in late]
            if lacking:
                found = callers(self.code.analysis(made.loaded), {start for start, _, _ in lacking})
                for start, name, reason in lacking:
                    yield Unfollowed(name, made.loaded.name, reason, found[start])

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
        return self._copy(self._keys_of(range(self.functions)))

    def expect(self, numbers: Iterable[int], busy: Iterable[int] = ()) -> None:
        """``begin`` will be asked for, of these: do beforehand what can be. Nothing is followed yet.

        ``busy``: functions that are called often, among these or not.
        """
        chosen = frozenset(numbers)
        self._expect(self._keys_of(chosen), self._keys_of(busy))
        self._expected = chosen

    def begin(self) -> Timed:
        """Follow what is expected."""
        assert self._expected is not None
        try:
            made = self._start()
        except TargetError as error:
            if error.slug != "code-changed":
                raise
            return self.follow(self._expected)
        return self._follows(self._expected, made)

    def follow(self, numbers: Iterable[int]) -> Timed:
        """Follow these functions from now on, but for those of images that were unmapped meanwhile."""
        chosen = frozenset(numbers) - self.followed
        for left in reversed(range(_TRIES)):
            try:
                made = self._activate(self._keys_of(chosen))
                break
            except TargetError as error:
                if error.slug != "code-changed" or not left:
                    raise
                chosen -= self._lose_unmapped()  # none, if it has been mapped again by now: then it is whole
        return self._follows(chosen, made)

    def _follows(self, numbers: Collection[int], made: Activated) -> Timed:
        self.followed.update(numbers)
        self._note(made.took, 0)
        self._give_up(made.lost)
        return made.took

    def _give_up(self, lost: Iterable[int]) -> None:
        """Functions of which some probe could not be had after all are not followed."""
        functions = self._functions_of(lost)
        if functions:
            self.leave(functions)
            self._late |= functions

    def leave(self, numbers: Iterable[int] | None = None) -> Timed:
        """Do not follow these any more; any, when ``numbers`` is None."""
        chosen = set(self.followed) if numbers is None else self.followed & set(numbers)
        outcome = self._deactivate(self._keys_of(chosen))
        self.followed -= chosen
        return outcome

    def lose(self, loaded: Loaded) -> None:
        """An image has been unmapped: what comes to lie there is another, or the same once more, to be made ready."""
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded == loaded:
                if not self.followed.isdisjoint(range(base, base + len(made.names))):
                    self.leave(range(base, base + len(made.names)))
                self._forget_image(loaded, made.number)

    def _lose_unmapped(self) -> frozenset[int]:
        """The functions of images that are not there any more."""
        present, numbers = set(self.code.loaded()), set[int]()
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded not in present:
                self.lose(made.loaded)
                numbers.update(range(base, base + len(made.names)))
        return frozenset(numbers)

    def _keys_of(self, numbers: Iterable[int]) -> Keys:
        """The keys of the functions' probes, but for those that are carried all the time, or cannot be had."""
        order = np.array(sorted(set(numbers) - self._carried - self._late), np.int64)
        if len(order) == self.functions:
            return self._keys
        low, size = self._edges[order], np.diff(self._edges)[order]
        keys: Keys = self._keys[np.repeat(low - np.cumsum(size) + size, size) + np.arange(size.sum())]
        return keys

    # Functions that carry something else as well.

    def carries(self, number: int) -> bool:
        """The function is recorded all the time, whether it is followed or not: something else waits at it."""
        return number in self._carried

    def _functions_of(self, keys: Iterable[int]) -> set[int]:
        """The functions of those of the keys that are of some."""
        mine = [key for key in keys if 0 <= key < len(self._of_key)]
        return set(self._of_key[mine].tolist()) - {-1}

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Have ``gates`` know when control is at the ``entry``, or the ``return``, of a function.

        A gate at the entry is met before the call is recorded, one at a return after it.
        Raises TargetError `cannot-watch` where the point cannot be instrumented.
        """
        function = self.code.analysis(loaded).function(span)
        places = list(libraries.places(self.code, loaded, function, where))
        carried, reasons = self._put_gate(loaded, places, gate, where == "entry") if places else (set(), [])
        self._carried |= carried
        if reasons or not places:
            why = f"it is refused: {reasons[0]}" if reasons else "there is no such point"
            raise TargetError("cannot-watch", f"{where} of {function.name} cannot be watched; {why}")

    def tactics(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[0]) for made in self._made), Counter(super().tactics())))

    def refusals(self) -> dict[str, int]:
        return dict(sum((Counter(made.outcomes[1]) for made in self._made), Counter(super().refusals())))


def _grown(numbers: Keys, size: int) -> Keys:
    """With -1 for what there is more."""
    return np.concatenate((numbers, np.full(size - len(numbers), -1, np.int64)))

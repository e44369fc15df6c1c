# SPDX-License-Identifier: LGPL-2.1-or-later
"""Followers: sessions that follow all calls. The timing of many functions is made ready, and then activated at once.

The patches of ready functions cost the program nothing while no jump leads to them. ``follow`` puts the jumps in,
``leave`` takes them out; both may be repeated. A function is followed even if some return cannot be instrumented: its
caller's record closes a call that leaves by it. A function whose entry cannot be instrumented is not followed.
Functions have numbers, in the order in which their images were made ready.
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
from gilk.spec.functions import FunctionPattern
from gilk.splice.plan import Refusal
from gilk.splice.template import PlanTemplate
from gilk.splice.template_build import Progress
from gilk.targets.base import Loaded
from gilk.trace.drain import Chunk
from gilk.trace.gates import Gates
from gilk.trace.probes import ProbeRow
from gilk.trace.traced import Unended, Unfollowed
from gilk.values import dataclass

_MOST = 1 << 24  # how many probes there can be
_TRIES = 8  # attempts to follow while the program unmaps images and maps them again


@dataclass(frozen=True)
class Followed:
    """A function by its name and its image's."""

    name: str
    image: str


class BaseFollower(FollowingMeans, ProbingSession):
    """A session that can follow functions. It waits for events in the program by its gates.

    ``of_iid``: by iid, the number of the function whose entry has it; -1 for others. ``met``: the globs of the scope
    that have had functions.
    """

    def _prepare_to_follow(self, gates: Any) -> None:
        """Set up the follower's part, once, when the session is open. ``gates``: the memory that has the gates."""
        self._capacity = _MOST
        self.gates = Gates(gates)
        self.followed: set[int] = set()  # numbers of the functions that are active
        self.met: set[FunctionPattern] = set()
        self.gone: set[Loaded] = set()  # images that were unmapped before they were ready
        self.of_iid: Keys = np.full(1, -1, np.int64)
        self._made: list[Functions] = []
        self._base = [0]  # number of the first function of each part of _made, and the one after the last
        self._keys: Keys = np.empty(0, np.int64)  # keys of the probes of all functions, function by function
        self._edges: Keys = np.zeros(1, np.int64)  # where the keys of each function begin, and the end
        self._of_key: Keys = np.empty(0, np.int64)  # by key, the function; -1 for others
        self._carried: set[int] = set()  # functions that are always active, since a gate or the like is in them
        self._late: set[int] = set()  # functions that turned out to be impossible to follow when they were activated
        self._expected: frozenset[int] | None = None

    @property
    def expects(self) -> bool:
        """Whether expected functions are ready, and no other change has come in between."""
        return self._expected is not None

    # Making functions ready.

    def prepare(
        self, images: Sequence[Loaded], scope: TraceScope, told: Progress = lambda done, of: None
    ) -> tuple[range, list[str]]:
        """Make the functions in ``scope`` of some images ready; returns their numbers, and sentences about what went
        wrong.

        Images that were unmapped meanwhile are added to ``gone``. Raises TargetError, CompileError.
        """
        self._look_after()
        before = self.functions
        templates = self._templates(images, told)
        left = {loaded: self._take_template(loaded, templates.get(loaded.path), scope) for loaded in images}
        trouble = [trouble for loaded, starts in left.items() if starts and (trouble := self._plan(loaded, starts))]
        self._know(0.0)
        return range(before, self.functions), trouble

    def _take_template(self, loaded: Loaded, template: PlanTemplate | None, scope: TraceScope) -> set[int]:
        """Place the functions of an image that its template has; returns the starts of those that are left."""
        starts, met = scope.starts_and_met(loaded, self.code.image(loaded.path))
        self.met |= met
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
        self._files[made.loaded.name] = made.loaded.path
        self.totals.asked += made.asked
        count, numbers = len(self._everything), np.arange(base, base + len(made.names))
        self.of_iid = _grown(self.of_iid, count + 1)
        self.of_iid[made.entries] = numbers
        self._of_key = _grown(self._of_key, count)
        self._of_key[made.keys] = np.repeat(numbers, made.sizes)
        self._edges = np.concatenate((self._edges, len(self._keys) + np.cumsum(made.sizes)))
        self._keys = np.concatenate((self._keys, made.keys))

    def _plan(self, loaded: Loaded, starts: set[int]) -> str:
        """Plan the functions that begin at ``starts`` one by one; returns a sentence about what went wrong, or ''."""
        rows: list[ProbeRow] = []
        try:
            groups = list(calls(self.code, loaded, starts))
            if groups:
                wanted = [one for group in groups for one in group]
                rows = [self._row(number, one) for number, one in enumerate(wanted, len(self._everything))]
                tactics, refusals = self._put_dormant(wanted, rows)
                self._take(of_plans(loaded, groups, rows, tactics, refusals))
        except GilkError as error:
            self._everything += rows  # some may be in, dormant: their numbers stay taken
            self.gone.update({loaded} if error.slug == "image-gone" else ())
            return f"{loaded.name} is not followed: {error}"
        return ""

    @property
    def names(self) -> Iterator[tuple[Loaded, list[str]]]:
        """The names of the functions that are ready, by image."""
        return ((made.loaded, made.names) for made in self._made)

    @property
    def functions(self) -> int:
        """How many functions are ready."""
        return self._base[-1]

    @property
    def unfit(self) -> int:
        """How many functions in the scope cannot be followed."""
        return sum(len(made.unfit) for made in self._made) + len(self._late)

    def unfollowed(self) -> Iterator[Unfollowed]:
        """The functions that cannot be followed, each with its callers in the same image."""
        for made, base in zip(self._made, self._base, strict=False):
            late = [number - base for number in sorted(self._late) if base <= number < base + len(made.names)]
            lacking = [(one.start, one.name, one.reason) for one in made.unfit]
            lacking += [(made.starts[n], made.names[n], str(Refusal.IN_ANOTHERS_WAY)) for n in late]
            if lacking:
                found = callers(self.code.analysis(made.loaded), {start for start, _, _ in lacking})
                for start, name, reason in lacking:
                    yield Unfollowed(name, made.loaded.name, reason, found[start])

    def unended(self) -> Iterator[Unended]:
        """The functions with returns that are not recorded."""
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
        """The chunks of records of the last ``take``."""
        return self._stream.latest

    # Putting in, and taking out.

    def copy_code(self) -> int:
        """Prepare copies of code, so that ``follow`` can activate all that is ready in one exchange
        (targets/copies.py); returns how many copies there are."""
        return self._copy(self._keys_of(range(self.functions)))

    def expect(self, numbers: Iterable[int], busy: Iterable[int] = ()) -> None:
        """Prepare for ``begin``, which will follow these functions; nothing is followed yet.

        ``busy``: functions that are called often, among these or not.
        """
        chosen = frozenset(numbers)
        self._expect(self._keys_of(chosen), self._keys_of(busy))
        self._expected = chosen

    def begin(self) -> Timed:
        """Follow the functions that expect() was given."""
        assert self._expected is not None
        try:
            made = self._start()
        except TargetError as error:
            if error.slug != "code-changed":
                raise
            return self.follow(self._expected)
        return self._follows(self._expected, made)

    def follow(self, numbers: Iterable[int]) -> Timed:
        """Follow these functions from now on, except those of images that were unmapped meanwhile."""
        chosen = frozenset(numbers) - self.followed
        for left in reversed(range(_TRIES)):
            try:
                made = self._activate(self._keys_of(chosen))
                break
            except TargetError as error:
                if error.slug != "code-changed" or not left:
                    raise
                chosen -= self._lose_unmapped()  # empty if the image has been mapped again: then its code is original
        return self._follows(chosen, made)

    def _follows(self, numbers: Collection[int], made: Activated) -> Timed:
        self.followed.update(numbers)
        self._note(made.took, 0)
        self._give_up(made.lost)
        return made.took

    def _give_up(self, lost: Iterable[int]) -> None:
        """Leave the functions that have one of these keys, whose probes could not be put in; they are not followed."""
        functions = self._functions_of(lost)
        if functions:
            self.leave(functions)
            self._late |= functions

    def leave(self, numbers: Iterable[int] | None = None) -> Timed:
        """Stop following these functions; all, if ``numbers`` is None."""
        chosen = set(self.followed) if numbers is None else self.followed & set(numbers)
        outcome = self._deactivate(self._keys_of(chosen))
        self.followed -= chosen
        return outcome

    def lose(self, loaded: Loaded) -> None:
        """Forget an unmapped image: an image that is mapped there later is another one, or has to be made ready
        again."""
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded == loaded:
                if not self.followed.isdisjoint(range(base, base + len(made.names))):
                    self.leave(range(base, base + len(made.names)))
                self._forget_image(loaded, made.number)

    def _lose_unmapped(self) -> frozenset[int]:
        """Forget images that are not mapped any more; returns the numbers of their functions."""
        present, numbers = set(self.code.loaded()), set[int]()
        for made, base in zip(self._made, self._base, strict=False):
            if made.loaded not in present:
                self.lose(made.loaded)
                numbers.update(range(base, base + len(made.names)))
        return frozenset(numbers)

    def _keys_of(self, numbers: Iterable[int]) -> Keys:
        """The keys of the functions' probes, except of functions that are always active or cannot be followed."""
        order = np.array(sorted(set(numbers) - self._carried - self._late), np.int64)
        if len(order) == self.functions:
            return self._keys
        low, size = self._edges[order], np.diff(self._edges)[order]
        keys: Keys = self._keys[np.repeat(low - np.cumsum(size) + size, size) + np.arange(size.sum())]
        return keys

    # Functions that have gates or the like.

    def carries(self, number: int) -> bool:
        """Whether the function is recorded whether it is followed or not, since a gate or the like is in it."""
        return number in self._carried

    def _functions_of(self, keys: Iterable[int]) -> set[int]:
        """The functions that have these keys; keys of other probes are ignored."""
        mine = [key for key in keys if 0 <= key < len(self._of_key)]
        return set(self._of_key[mine].tolist()) - {-1}

    def put_gate(self, loaded: Loaded, span: FunctionSpan, where: str, gate: int) -> None:
        """Put a gate at the ``entry``, or at the ``return`` points, of a function; ``gates`` knows when a thread
        reaches it.

        A gate at the entry comes before the call is recorded, one at a return after it. Raises TargetError
        `cannot-watch` if a point cannot be instrumented.
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
    """The array enlarged to ``size``, filled with -1."""
    return np.concatenate((numbers, np.full(size - len(numbers), -1, np.int64)))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The session that has a process for itself, and can put advice on calls and accesses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from gilk.errors import GilkError, UsageError
from gilk.lang.c.advice import SHARED
from gilk.session import advising
from gilk.session.advising import (
    Advice,
    AdvisedAccess,
    AdvisedCalls,
    AdvisedCopy,
    AdvisedPlace,
    CopyPoint,
    TrappedMemory,
)
from gilk.session.base import Probe
from gilk.session.entry import Entry
from gilk.session.leaving import LeavingFunction
from gilk.session.places import Place, places_at
from gilk.session.probing import Points
from gilk.session.session import Session
from gilk.splice.access import Accessed
from gilk.splice.advice import LEAVING
from gilk.splice.copy_entry import EnteredCopy, LeftCopy
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.targets.advised_workspace import AdvisedWorkspace
from gilk.targets.base import Loaded, Target
from gilk.targets.common_memory import CommonMemory
from gilk.targets.debug_registers import WatchedPiece
from gilk.targets.process import Process
from gilk.toolchain.advice import CompiledAdvice
from gilk.trace.drain import Chunk

#: Advice that is compiled.
MadeAdvice = dict[Advice, CompiledAdvice]


class AdvisedSession(Session):
    """A session with advice. Use it as a context manager; at its end all advice, and all probes, are gone from the
    target."""

    _workspace_type = AdvisedWorkspace
    _workspace: AdvisedWorkspace

    def __init__(
        self, process: Target, points: int = 4096, threads: int = 1024, ring: int = 1 << 16, private: int = 0,
        made: MadeAdvice | None = None,
    ) -> None:  # fmt: skip
        """``made``: advice that other processes have, compiled; what is compiled here is added.

        Raises UsageError `advice-alone`, TargetError, also `seccomp-blocks-hits`.
        """
        if isinstance(process, Process) and process.keeper.is_shared:
            raise UsageError("advice-alone", f"another session has {process.who}", "end that first")
        super().__init__(process, points, threads, ring, private=private)
        self._made = made if made is not None else {}
        #: The instructions without the advice that they were to have, where that was optional, each with the reason;
        #: calls_left_out has the functions, copies_left_out copies of functions.
        self.left_out: list[str] = []
        self.copies_left_out: list[str] = []
        self.calls_left_out: list[str] = []
        self._advised: dict[int, int] = {}  # the number of a probe: the address of the function whose calls have advice

    def advise(self, points: Points, advice: Advice) -> tuple[Probe, ...]:
        """Put advice on the calls of one or more functions, in one change; ``points`` are their entries.

        All probes, at entries and returns, go in, or none does. Raises UsageError, CompileError, TargetError; then
        nothing has changed.
        """
        return self.advise_all([AdvisedCalls(points, advice)])

    def advise_all(
        self, advised: Iterable[AdvisedCalls], accesses: Iterable[AdvisedAccess] = (),
        leaving: Iterable[LeavingFunction] = (), copies: Iterable[AdvisedCopy] = (),
    ) -> tuple[Probe, ...]:  # fmt: skip
        """The same as advise(), for several pieces of advice in one change, and for advice on accesses of variables and
        at copies of functions.

        ``leaving``: functions by which calls are left, which then count as left; if one is refused, left_out has it.
        """
        advising.check_process(self.process)
        self.calls_left_out, self.copies_left_out, self.left_out = [], [], []
        found = [each for calls in advised for each in self._found(calls)]
        self._check_new([one.place for one in found])
        copied, accessed, leaves = advising.points_of_copies(copies), list(accesses), list(leaving)
        wanted = [
            *(point.wanted for one in found for point in one.points), *(one.wanted for one in copied),
            *(one.wanted for one in accessed), *(one.wanted for one in leaves),
        ]  # fmt: skip
        with self._numbered(wanted) as numbers:
            left = iter(numbers)
            wants = [
                *self._wants(found, left), *self._want_copies(copied, left),
                *(self._want_access(one, next(left)) for one in accessed),
                *(self._want_leaving(one, next(left)) for one in leaves),
            ]  # fmt: skip
            may_go = [
                *(self.left_out if one.partial else None for one in accessed), *(self.left_out for _ in leaves),
            ]  # fmt: skip
            last = zip(reversed(numbers), reversed(may_go), strict=False)
            spared = {number: told for number, told in last if told is not None}
            behind = numbers[sum(len(one.points) for one in found) :]
            probes = self._put_in(wants, numbers, spared, _together(found, numbers), _copies_together(copied, behind))
        owners = (one.place for one in found for _ in one.points)
        there = {probe.number for probe in probes}
        of = zip(numbers, owners, strict=False)
        self._advised |= {number: place.address for number, place in of if number in there}
        return probes

    def trap(self, trapped: Sequence[TrappedMemory]) -> None:
        """Have debug registers show accesses of memory from now on, and run advice on them, until the session ends.
        Raises CompileError, TargetError `no-debug-registers`; then nothing has changed."""
        if not trapped:
            return
        ground = self._ground(self.process.loaded()[0])
        sides = [(one, self._trap_sites(ground, one)) for one in trapped]
        pieces = [
            WatchedPiece(address, size, *(site(size) for site in sites))
            for one, sites in sides
            for address, size in one.pieces
        ]
        self.process.keeper.trap(pieces, self._workspace.runtime_address(ground, "gilk_trapped"))

    def _trap_sites(self, ground: PatchContext, one: TrappedMemory) -> list[Callable[[int], int]]:
        """For reads and for writes, a function from the size of a piece to the address of the site of the advice, which
        is 0 if there is no advice."""
        behind = "gilk_trapped_read", "gilk_trapped_written"
        return [
            partial(self._workspace.trap_site, ground, self._workspace.accessed(ground, self._advice(advice)), name)
            if advice is not None
            else lambda size: 0
            for name, advice in zip(behind, (one.read, one.write), strict=True)
        ]

    def _advice(self, advice: Advice) -> CompiledAdvice:
        return self._made.get(advice) or self._made.setdefault(advice, advice.compiled())

    def _want_access(self, one: AdvisedAccess, number: int) -> tuple[Entry, Want]:
        place = one.place
        ground = self._ground(place.loaded)
        read, write = (
            None if advice is None else self._workspace.accessed(ground, self._advice(advice))
            for advice in (one.read, one.write)
        )
        thunk = self._workspace.runtime_address(ground, "gilk_access_enter")
        made = Accessed(one.instruction, read, write, one.replaces, one.number, thunk, one.bounds)
        return self._ledger.entry(ground, place.function), Want(place.point.address, False, made, number)

    def _want_copies(self, points: Sequence[CopyPoint], left: Iterator[int]) -> Iterator[tuple[Entry, Want]]:
        numbers = [number for _, number in zip(points, left, strict=False)]
        entries = {id(one.copy): number for one, number in zip(points, numbers, strict=True) if not one.left}
        for one, number in zip(points, numbers, strict=True):
            copy, wanted = one.copy, one.wanted
            ground = self._ground(wanted.loaded)
            thunk = self._workspace.runtime_address(ground, "gilk_access_enter")
            advice, of = self._workspace.accessed(ground, self._advice(copy.advice)), entries[id(copy)]
            made: EnteredCopy | LeftCopy = EnteredCopy(advice, thunk, copy.places, of, one.frame)
            if one.left and one.frame is not None:
                made = LeftCopy(advice, thunk, of, one.frame, copy.place.address)
            entry = self._ledger.entry(ground, wanted.function)
            yield entry, Want(wanted.point.address, wanted.point.after, made, number)

    def _want_leaving(self, one: LeavingFunction, number: int) -> tuple[Entry, Want]:
        place = one.view.entry
        ground = self._ground(place.loaded)
        made = one.kind(self._workspace.runtime_address(ground, LEAVING[one.kind]))
        return self._ledger.entry(ground, place.function), Want(place.point.address, False, made, number)

    def _found(self, calls: AdvisedCalls) -> Iterator[AdvisedPlace]:
        compiled = self._advice(calls.advice)
        for place in places_at(self.process, calls.points):
            try:
                points = tuple(advising.wanted(self.process, place, calls.advice, compiled.proceeds))
            except UsageError as error:
                if not calls.partial:
                    raise
                self.calls_left_out.append(f"{place.point.label}: {error.message} ({error.slug})")
                continue
            yield AdvisedPlace(calls, place, points, compiled)

    def stored(self, address: int, size: int) -> bytes:
        """``size`` bytes of the constants of the session's C, which the process has at ``address``; b"" if it has none
        there."""
        return self._workspace.stored(address, size)

    def records_taken(self, final: bool = False) -> list[Chunk]:
        """The records that the session's C has written since the last call. ``final``: nothing writes records any
        more."""
        if not final:
            self._look_after()
        return self._stream.taken(final)

    def remove(self, probes: Iterable[Probe]) -> None:
        gone = list(probes)
        super().remove(gone)
        for probe in gone:
            self._advised.pop(probe.number, None)

    def _check_new(self, places: list[Place]) -> None:
        seen = set(self._advised.values())
        for place in places:
            if place.address in seen:
                raise UsageError("already-advised", f"{place.function.name} has advice already", "take that out first")
            seen.add(place.address)

    def _put_in(
        self, wants: list[tuple[Entry, Want]], numbers: range, spared: Mapping[int, list[str]],
        together: Mapping[int, range], copies: Mapping[int, Collection[int]],
    ) -> tuple[Probe, ...]:  # fmt: skip
        """Put probes in, dormant at first, so that refusals show before the target has changed.

        Probes with numbers in ``spared`` may be refused; the list there receives the reason. If one that is a key of
        ``together`` or ``copies`` is refused, all numbers there go. Any other refusal raises UsageError
        `advice-refused`.
        """
        self._add(self._handlers())
        made = self._ledger.add(wants, active=False)
        try:
            refused = {key: why for plan in made.plans for key, why in plan.refusals.items()}
            here = [(n, self._everything[n].point, refused[n]) for n in numbers if n in refused]
            all_go = {**together, **copies}
            advising.refuse((point, why) for n, point, why in here if n not in spared and n not in all_go)
            for n, point, why in here:
                if n in spared:
                    spared[n].append(f"{point}: {why}")
            self.calls_left_out += [f"{point}: {why} (advice-refused)" for n, point, why in here if n in together]
            self.copies_left_out += [f"{point}: {why}" for n, point, why in here if n in copies]
            gone = {each for n, _, _ in here if n in all_go for each in all_go[n]}
            if gone:
                self._ledger.remove(gone)
            kept = [n for n in numbers if n not in gone]
            changed = self._ledger.activate(kept)
        except BaseException:
            with contextlib.suppress(GilkError):  # the first error, which is the reason, is the one to report
                self._ledger.remove(numbers)
            raise
        self._know(changed.outcome.total)
        self._note(changed.outcome, len(kept))
        plans = [*made.plans, *changed.plans]
        tactics = {key: each for plan in plans for key, each in plan.tactics.items() if key not in gone}
        refusals = {key: each for plan in plans for key, each in plan.refusals.items() if key not in gone}
        return self._known_outcomes(tactics, refusals, kept)

    def _wants(self, found: list[AdvisedPlace], left: Iterator[int]) -> list[tuple[Entry, Want]]:
        return [pair for one in found for pair in self._wants_at(one, left)]

    @property
    def private(self) -> memoryview:
        """The memory that the session's C knows as ``gilk_private``; the program may have overwritten any of it."""
        return memoryview(self._workspace.data)[self._private_at :]

    def share(self, memory: CommonMemory) -> int:
        """Map memory into the process, where the session's C knows it as ``gilk_shared``; returns its address there.
        Raises TargetError."""
        address = memory.map_into(self.process)
        self._workspace.give(SHARED, address)
        return address

    def _wants_at(self, one: AdvisedPlace, numbers: Iterator[int]) -> Iterator[tuple[Entry, Want]]:
        entry = self._workspace.advised(self._ground(one.place.loaded), one.compiled, one.about)
        for each in one.points:
            wanted, ground = each.wanted, self._ground(each.wanted.loaded)
            made = self._workspace.advised_on(ground, entry, each.kind)
            yield (
                self._ledger.entry(ground, wanted.function),
                Want(wanted.point.address, wanted.point.after, made, next(numbers)),
            )

    def _ground(self, loaded: Loaded) -> PatchContext:
        return self._workspace.ground(loaded, self.process.analysis(loaded))


def _together(found: Iterable[AdvisedPlace], numbers: range) -> dict[int, range]:
    """Map the number of each point whose function may go without advice to the numbers of all its function's points."""
    at = 0
    together: dict[int, range] = {}
    for one in found:
        own = numbers[at : at + len(one.points)]
        at += len(one.points)
        if one.calls.partial:
            together |= dict.fromkeys(own, own)
    return together


def _copies_together(points: Sequence[CopyPoint], numbers: Sequence[int]) -> dict[int, list[int]]:
    """Map the number of each point of a copy that may go without advice to the numbers of all points of that copy.
    ``numbers``: those of the points, and maybe more."""
    of: dict[int, list[int]] = {}
    for one, number in zip(points, numbers, strict=False):
        of.setdefault(id(one.copy), []).append(number)
    return {n: of[id(one.copy)] for one, n in zip(points, numbers, strict=False) if one.copy.partial}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Timed calls that go on in other functions, by a jump at the end of the timed one: where they return, the record of
their end is written.

For this, other functions get instruments as well: those to which the jumps lead, and on from these, at their entries,
jumps and returns (targets/call_ends.py, native/runtime/onward.c). They are no probes of the user's. Several timed
functions share them, and they stay until no timed function needs them and a client goes, or until the session ends.

Where it cannot be known to which function a jump leads, calls end at that jump; where one of these points is refused,
calls of the function end at its jumps; and the session says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from gilk.analysis.model import End, Function
from gilk.errors import TargetError, UsageError
from gilk.session.entry import Entry
from gilk.session.request import Builtin, Wanted, WantedSite
from gilk.splice import points
from gilk.splice.instrument import Instrument
from gilk.splice.onward import EntersAnew, IfItJumps, LooksForNotes, PassesOn, ReturnsFromAll, condition_of
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.targets.base import Code, Loaded
from gilk.targets.call_ends import CallEndFinder, CallEnds, CodePlace
from gilk.targets.tails import Peek
from gilk.trace.probes import RecordKind
from gilk.values import dataclass

_FIRST_KEY = 1 << 41  # higher than any key of a probe, or of a signal handler's instrument
_NAMED = 8  # functions that a remark names
_REASONS = 3  # for each of them
_JUMPS = (End.TAIL, End.TAIL_INDIRECT)

Carried = tuple[Entry, Want]
EntryOf = Callable[[PatchContext, Function], Entry]


# Requests of a user.


def followed(code: Code, wanted: Iterable[Wanted]) -> Iterator[Wanted]:
    """The probes wanted; those of timed functions are told which of them are in front of jumps by which calls go on,
    and there is one in front of each conditional jump by which calls may."""
    for each in wanted:
        if each.instrument != Builtin.TIME or each.inlined or each.refusal is not None:
            yield each
        elif each.kind == RecordKind.RETURN:
            block = each.function.block_at(each.point.address)
            yield replace(each, goes_on=True) if block is not None and block.how in _JUMPS else each
        else:
            yield each
            yield from _conditional(code, each)


def _conditional(code: Code, entry: Wanted) -> Iterator[Wanted]:
    image, analysis = code.image(entry.loaded.path), code.analysis(entry.loaded)
    parts = analysis.extents(entry.function)
    for part in parts:
        name = "" if part is entry.function else part.name
        for block in part.blocks:
            out = block.how is End.BRANCH and block.target and not any(each.owns(block.target) for each in parts)
            if out and analysis.returns.at(block.target):
                at = points.post(image.name, analysis, part, block)
                at = replace(at, function=entry.point.function, part=name)
                yield replace(entry, function=part, point=at, kind=RecordKind.RETURN, goes_on=True)


# Instruments of a session.


@dataclass(frozen=True, slots=True)
class TimedProbe:
    """A probe of `time`, with the instrument that it has if calls end at jumps. ``goes_on``: it is in front of a jump.
    ``number``: of its records, as the runtime takes it."""

    loaded: Loaded
    entry: Entry
    want: Want
    number: int
    goes_on: bool

    @property
    def at(self) -> int:
        return self.want.address


@dataclass
class TimedFunction:
    """A timed function that ends in jumps. ``entry``: its probe where calls begin; ``jumps``: those in front of the
    jumps; ``helpers``: the keys of the instruments in other places. ``why``: the reasons why calls end at some of the
    jumps after all, or at those of the functions that these lead to."""

    function: Function
    entry: TimedProbe | None
    jumps: tuple[TimedProbe, ...]
    helpers: frozenset[int] = frozenset()
    why: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The number by which the runtime knows the function: that of the probe at its entry. The next probe is at a
        return or a jump, and has the number of the records of ends (followed())."""
        return self.entry.number if self.entry is not None else min(one.number for one in self.jumps) - 1

    @property
    def present(self) -> list[TimedProbe]:
        """The probes in front of jumps that have not been removed."""
        return [one for one in self.jumps if one.want.key in one.entry.wants]

    @property
    def places(self) -> str:
        return ", ".join(f"+{one.at - self.function.start:#x}" for one in self.jumps)

    @property
    def remark(self) -> str:
        more = f"; and {len(self.why) - _REASONS} more" if len(self.why) > _REASONS else ""
        return f"{self.function.name} ({'; '.join(self.why[:_REASONS])}{more})"


class MakesOnward(Protocol):
    """Makes instruments of calls that go on in other functions."""

    @property
    def kinds(self) -> Collection[type[LooksForNotes]]:
        """The kinds of instruments that there are in other places than probes."""
        ...

    def ground_of(self, loaded: Loaded) -> PatchContext: ...

    def notes_jump(self, ground: PatchContext, number: int) -> Instrument:
        """The instrument in front of a jump by which a timed call goes on. ``number``: that of the function's probe at
        the entry, with the client's number above; the next number is that of the record to write at the return."""
        ...

    def looks_for_notes(self, ground: PatchContext, kind: type[LooksForNotes]) -> Instrument: ...

    def begins_once(self, ground: PatchContext, number: int, otherwise: Instrument) -> Instrument:
        """The instrument at the entry of a timed function that its calls may come back to."""
        ...


@dataclass
class _Helpers:
    """The instruments in other places than probes: a want for each place and kind."""

    wants: dict[tuple[int, int, type[LooksForNotes]], Carried] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    last: int = _FIRST_KEY


class OnwardCalls:
    """The timed functions of one session whose calls go on elsewhere. The argument ``entry_of`` gives the ledger's
    entry of a function."""

    def __init__(self, code: Code, makes: MakesOnward, peek: Peek | None = None) -> None:
        """``peek`` reads memory of a process; without it, jumps through memory may lead anywhere."""
        self._code, self._makes, self._peek = code, makes, peek
        self._timed: list[TimedFunction] = []
        self._helpers = _Helpers()

    def with_others(
        self, numbers: Iterable[int], wanted: Sequence[Wanted | WantedSite], wants: list[Carried], entry_of: EntryOf
    ) -> list[Carried]:  # fmt: skip
        """The wants of probes with these numbers, each with the instrument that it needs now, and those of other
        places that are not in force yet."""
        if not any(isinstance(each, Wanted) and each.goes_on for each in wanted):
            return wants
        timed = {
            n: TimedProbe(each.loaded, *carried, number + 1, each.goes_on)
            for n, (number, each, carried) in enumerate(zip(numbers, wanted, wants, strict=True))
            if isinstance(each, Wanted) and each.instrument == Builtin.TIME
        }
        mine, others = self.wants(list(timed.values()), entry_of)
        changed = dict(zip(timed, mine, strict=True))
        return [changed.get(n, carried) for n, carried in enumerate(wants)] + others

    def wants(self, probes: Sequence[TimedProbe], entry_of: EntryOf) -> tuple[list[Carried], list[Carried]]:
        """The wants of the probes, with the instruments that they need now; and those of other places that are not in
        force yet."""
        changed: dict[int, Instrument] = {}
        fresh: dict[int, Carried] = {}
        self._timed = [one for one in self._timed if one.present]
        ends = CallEndFinder(self._code, self._peek)
        for timed in _by_function(probes):
            self._timed.append(timed)
            changed.update(self._follow(timed, ends, entry_of, fresh))
        mine = [(one.entry, replace(one.want, instrument=changed.get(one.want.key, one.want.instrument)))
                for one in probes]  # fmt: skip
        return mine, list(fresh.values())

    def _follow(
        self, timed: TimedFunction, finder: CallEndFinder, entry_of: EntryOf, fresh: dict[int, Carried]
    ) -> dict[int, Instrument]:  # fmt: skip
        """The instruments of the function's probes, by key; ``fresh`` gets those of other places."""
        try:
            ends = finder.of(timed.jumps[0].loaded, timed.function)
            self._check(ends)
            places = _places(ends, {one.at for one in timed.jumps})
            found = [self._helper(*place, entry_of) for place in places if place[1] in self._makes.kinds]
        except (UsageError, TargetError) as error:
            timed.why = (error.message,)
            return {one.want.key: _at_jump(one) for one in timed.jumps}
        timed.why = tuple(dict.fromkeys((*ends.why, *ends.why_elsewhere)))
        timed.helpers = frozenset(want.key for _, want in found)
        fresh.update({want.key: (entry, want) for entry, want in found if want.key not in entry.wants})
        leading = {place.point.address for place in ends.jumps}
        made = {one.want.key: self._note(timed, one) if one.at in leading else _at_jump(one) for one in timed.jumps}
        if ends.comes_back:
            made.update(self._beginning(timed))
        return made

    def _check(self, ends: CallEnds) -> None:
        """Raises UsageError `tail-call` if a conditional jump is one that goes by a register, not by flags."""
        for place in (*ends.jumps, *ends.between):
            last = self._code.analysis(place.loaded).steps(place.part, place.block)[-1].instruction
            if place.block.how is End.BRANCH and condition_of(last) is None:
                raise UsageError("tail-call", f"{place.point.label} is a jump by the value of rcx")

    def _note(self, timed: TimedFunction, one: TimedProbe) -> Instrument:
        return _if_taken(one.entry, one.at, self._makes.notes_jump(one.entry.ground, timed.number))

    def _beginning(self, timed: TimedFunction) -> dict[int, Instrument]:
        """The instrument at the entry of a function to which its calls may come back."""
        if timed.entry is None or timed.entry.want.instrument is None:
            return {}
        ground, otherwise = timed.entry.entry.ground, timed.entry.want.instrument
        return {timed.entry.want.key: self._makes.begins_once(ground, timed.number, otherwise)}

    def _helper(self, place: CodePlace, kind: type[LooksForNotes], entry_of: EntryOf) -> Carried:
        """The want of a place, the same each time."""
        loaded = place.loaded
        ground = self._makes.ground_of(loaded)
        entry = entry_of(ground, place.part)
        key = id(ground), place.point.address, kind
        known = self._helpers.wants.get(key)
        if known is not None:
            return entry, known[1]
        made = self._makes.looks_for_notes(ground, kind)
        if kind is not EntersAnew:
            made = _if_taken(entry, place.point.address, made)
        self._helpers.last += 1
        want = Want(place.point.address, place.point.after, made, self._helpers.last)
        self._helpers.wants[key] = entry, want
        self._helpers.labels[want.key] = f"{loaded.name}:{place.part.name}+{place.point.address - place.part.start:#x}"
        return entry, want

    # Refusals, and ends.

    def lose(self, refused: Mapping[int, object]) -> list[Carried]:
        """Note that instruments were refused, by key with the reason; returns probes to put in again, with which the
        calls of functions end at their jumps that need those instruments."""
        again: list[Carried] = []
        for entry, want in self._helpers.wants.values():
            if want.key in refused:
                entry.wants.pop(want.key, None)
        for timed in self._timed:
            lost = sorted(timed.helpers & refused.keys())
            if lost:
                timed.why = (f"at {timed.places}: {refused[lost[0]]} at {self._helpers.labels[lost[0]]}",)
                timed.helpers = frozenset()
                again += [(one.entry, replace(one.want, instrument=_at_jump(one))) for one in timed.present]
        return again

    def along(self, keys: Iterable[int]) -> set[int]:
        """The keys of the instruments in other places that the functions with these probes need."""
        chosen = set(keys)
        return {key for timed in self._timed if any(one.want.key in chosen for one in timed.jumps)
                for key in timed.helpers}  # fmt: skip

    def unused(self) -> list[int]:
        """The keys of the instruments in other places that no function needs any more."""
        self._timed = [one for one in self._timed if one.present]
        needed = set[int]().union(*(one.helpers for one in self._timed))
        return [want.key for entry, want in self._helpers.wants.values()
                if want.key not in needed and want.key in entry.wants]  # fmt: skip

    def remarks(self, keys: Iterable[int] | None = None) -> list[str]:
        """A sentence about the functions whose calls end at their jumps, if there are any. ``keys``: those of the
        probes that it is about, all if it is None."""
        chosen = None if keys is None else set(keys)
        found = [one for one in self._timed if one.why
                 and (chosen is None or any(each.want.key in chosen for each in one.jumps))]  # fmt: skip
        names = list(dict.fromkeys(one.remark for one in found))
        if not names:
            return []
        more = f", and of {len(names) - _NAMED} more functions" if len(names) > _NAMED else ""
        return [f"the time of calls ends at the jump to another function, not where that returns, in "
                f"{', '.join(names[:_NAMED])}{more}"]  # fmt: skip


def _places(ends: CallEnds, noted: set[int]) -> Iterator[tuple[CodePlace, type[LooksForNotes]]]:
    """The places that need instruments, besides the jumps ``noted`` of the function."""
    yield from ((place, EntersAnew) for place in ends.entries)
    yield from ((place, PassesOn) for place in ends.jumps if place.point.address not in noted)
    yield from ((place, PassesOn) for place in ends.between)
    yield from ((place, ReturnsFromAll) for place in ends.elsewhere)


def _by_function(probes: Iterable[TimedProbe]) -> Iterator[TimedFunction]:
    """The timed functions that end in jumps, each with its probes; these follow the one at its entry. A function may be
    there several times."""
    found: list[tuple[TimedProbe | None, list[TimedProbe]]] = []
    latest: dict[tuple[int, int], list[TimedProbe]] = {}
    for one in probes:
        key = id(one.entry.ground), one.entry.function.whole or one.entry.start
        begins = not one.goes_on and _is_entry(one)
        if begins or (one.goes_on and key not in latest):
            latest[key] = []
            found.append((one if begins else None, latest[key]))
        if one.goes_on:
            latest[key].append(one)
    return (TimedFunction(_whole(jumps[0]), entry, tuple(jumps)) for entry, jumps in found if jumps)


def _is_entry(one: TimedProbe) -> bool:
    at = points.entry("", one.entry.function)
    return not one.entry.function.whole and (one.at, one.want.after) == (at.address, at.after)


def _whole(one: TimedProbe) -> Function:
    """The function to which the probe's part belongs."""
    analysis, part = one.entry.ground.analysis, one.entry.function
    span = analysis.image.span_at(part.whole) if part.whole else None
    return analysis.function(span) if span is not None else part


def _if_taken(entry: Entry, at: int, made: Instrument) -> Instrument:
    """The instrument, for the place in front of a jump; if that is conditional, it runs if the jump will be taken."""
    block = entry.function.block_at(at)
    if block is None or block.how is not End.BRANCH:
        return made
    condition = condition_of(entry.ground.analysis.steps(entry.function, block)[-1].instruction)
    return made if condition is None else IfItJumps(condition, made)


def _at_jump(one: TimedProbe) -> Instrument:
    """The instrument of a probe in front of a jump at which calls end."""
    assert one.want.instrument is not None
    return _if_taken(one.entry, one.at, one.want.instrument)

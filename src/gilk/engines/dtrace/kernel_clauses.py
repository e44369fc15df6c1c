# SPDX-License-Identifier: LGPL-2.1-or-later
"""The clauses of a program in a kernel: their code, and the places of the kernel at which they run. Nothing is changed
here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from gilk import activity
from gilk.analysis.model import Function
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.kernel_given import givens, keeps
from gilk.engines.dtrace.kernel_places import KernelPlace, merged, of_returns
from gilk.errors import UsageError
from gilk.lang import ir
from gilk.lang.d import tree
from gilk.lang.d.kernel_code import KernelCode, ProgramPrinter
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.facts import Facts, facts, union
from gilk.lang.runtime import Does
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.providers.kernel import sdt
from gilk.providers.kernel.event_format import EventFormat, event_format
from gilk.providers.kernel.probe import KernelProbe, ProviderRow
from gilk.providers.kernel.syscall import WAYS
from gilk.splice import points
from gilk.splice.points import Point
from gilk.targets.call_ends import CallEndFinder, SiteRole
from gilk.targets.kernel.d_messages import KernelFire, SiteKind
from gilk.targets.kernel.target import KernelTarget

IN_REGISTERS = 6  # arguments of a function that are in registers
_EDGES = {"entry": SiteKind.ENTRY, "return": SiteKind.RETURN, "done": SiteKind.RETURN}
_LEFT = {"return": points.LEAVES, "done": points.RETURNS}
_CALLS = {"entry": SiteKind.CALL_BEGINS, "return": SiteKind.CALL_ENDS}

_Key: TypeAlias = tuple[tuple[int, ...], ProviderRow | ir.Given | None]


def printed(
    program: tree.Program, enabled: Enabled, groups: list[tuple[int, ...]], options: Options,
    givens: Sequence[ir.Given | None] = (),
) -> KernelCode:  # fmt: skip
    """The program's code for the driver. Raises UsageError `not-in-kernel`, before anything is loaded."""
    try:
        return ProgramPrinter(program, enabled.names(), options.flag("rawbytes")).printed(groups, givens)
    except NotInKernel as refused:
        what = f"clause {refused.clause} cannot run in a kernel: {refused.what}"
        raise UsageError("not-in-kernel", what, "docs/limits.md lists what there is") from None


def _notes_calls(row: tuple[DProbe, KernelProbe]) -> bool:
    made = row[1]
    return made.edge == "return" or any(fire.role is not SiteRole.FIRES for fire in made.user)


def _events(target: KernelTarget, enabled: Enabled) -> Iterator[tuple[int, EventFormat]]:
    """The formats of the events of tracefs at which probes fire, by the probes' numbers."""
    for probe, made in enabled.in_kernel:
        known = event_format(target.link, made.event) if made.event else None
        if known is not None:
            yield probe.number, known


class KernelClauses:
    """The clauses of one program, grouped by what runs together at a place."""

    def __init__(self, target: KernelTarget, program: tree.Program, enabled: Enabled, world: World) -> None:
        self._target, self._enabled = target, enabled
        self._events = dict(_events(target, enabled))
        rows = {probe.number: made.row for probe, made in enabled.in_kernel if made.row is not None}
        made_of = {probe.number: made for probe, made in enabled.in_kernel}
        rows |= {number: sdt.row(made_of[number], known) for number, known in self._events.items()}
        self._givens = givens(rows.values(), world)
        self._of_row: dict[int, ProviderRow] = rows
        self._needs = {clause.number: facts(clause.function) for clause in program.clauses}
        self._groups = list(dict.fromkeys(self._keys())) or [((), None)]

    def code(self, program: tree.Program, options: Options) -> KernelCode:
        """The program's code for the driver. Raises UsageError `not-in-kernel`."""
        return printed(
            program, self._enabled, [clauses for clauses, _ in self._groups], options,
            [self._givens.get(place) if isinstance(place, ProviderRow) else place for _, place in self._groups],
        )  # fmt: skip

    @property
    def keeps(self) -> bool:
        """Whether there are keyed variables besides the program's: those of the tables' rows, or the notes of calls
        that go on in other functions."""
        return any(map(keeps, self._givens.values())) or any(map(_notes_calls, self._enabled.in_kernel))

    @property
    def does(self) -> Does:
        """The effects of all clauses."""
        return union(self._needs.values()).does

    def event(self, probe: DProbe) -> int:
        """The number of the event of tracefs at which the probe fires; 0 if there is none, or the kernel does not tell
        its fields."""
        return self._events[probe.number].number if probe.number in self._events else 0

    def group(self, probe: DProbe, given: ir.Given | None = None) -> int:
        """The number of the group that runs where the probe fires."""
        return self._groups.index(self._key(probe.number, given))

    def _keys(self) -> Iterator[_Key]:
        given = {probe.number: [fire.given for fire in made.user] for probe, made in self._enabled.in_kernel}
        for number in sorted(self._enabled.clauses):
            yield from (self._key(number, each) for each in given.get(number) or [None])

    def _key(self, number: int, given: ir.Given | None) -> _Key:
        """The group of a probe: its clauses, and what stands between them and the place: a table's row, or the
        arguments that the place gives."""
        clauses = tuple(self._enabled.clauses[number])
        if given is None:
            return clauses, self._of_row.get(number)
        used = union(self._needs[clause] for clause in clauses).arguments
        kept = (each if number in used else None for number, each in enumerate(given.arguments))
        return clauses, replace(given, arguments=tuple(kept))

    def used(self, probe: DProbe) -> Facts:
        """The facts about the code that gets the place's own arguments: the table's row, if there is one, else the
        clauses."""
        row = self._of_row.get(probe.number)
        if row in self._givens:
            given = self._givens[row]
            return union(facts(each) for each in (*given.arguments, given.condition) if each is not None)
        return union(self._needs[clause] for clause in self._enabled.clauses[probe.number])

    # Places.

    @cached_property
    def _ends(self) -> CallEndFinder:
        return CallEndFinder(self._target)

    def lacks_types(self, probe: DProbe) -> bool:
        """Whether the probe is a table's, and the kernel has not the types of its row."""
        row = self._of_row.get(probe.number)
        return row is not None and row not in self._givens

    def places(self, refused: dict[DProbe, str]) -> list[KernelPlace]:
        """The places that are to be made in the kernel's code; adds refusals to ``refused``."""
        return merged(self._places(refused))

    def _places(self, refused: dict[DProbe, str]) -> Iterator[KernelPlace]:
        calls: dict[str, list[tuple[DProbe, KernelProbe]]] = defaultdict(list)
        for probe, made in activity.told("analysing", self._enabled.in_kernel, "probes"):
            if self.lacks_types(probe):
                refused[probe] = "the kernel has not the types that it is about"
                continue
            if made.event and not self.event(probe):
                refused[probe] = "the kernel does not tell which fields the event has"
            if made.point or made.user or made.event:
                continue
            if made.call is not None:
                calls[probe.name].append((probe, made))
                continue
            found = list(self._of_function(probe, made))
            if not found:
                refused[probe] = "the function does not return" if made.edge in _LEFT else "no code was found"
            yield from found
        for side in WAYS:
            if calls[side]:
                yield from self._of_calls(side, calls[side])

    def _of_function(self, probe: DProbe, made: KernelProbe) -> Iterator[KernelPlace]:
        deep = any(number >= IN_REGISTERS for number in self.used(probe).arguments)
        start = made.function.start if made.function is not None else 0
        fire = KernelFire(0, _EDGES[made.edge], self.group(probe), probe.number, start, deep)
        function = None if made.function is None else self._target.analysis().function(made.function)
        if made.edge == "return" and function is not None and function.blocks and not function.whole:
            yield from of_returns(self._ends.of(self._target.loaded()[0], function), fire, probe)
            return
        for part, point in self._points(made):
            yield KernelPlace(part, point, (replace(fire, address=point.address),), (probe,))

    def _of_calls(self, side: str, found: list[tuple[DProbe, KernelProbe]]) -> Iterator[KernelPlace]:
        """The places of the probes of system calls: one site for all, which looks up the clauses to run."""
        choice = tuple((made.call or 0, self.group(probe), probe.number) for probe, made in found)
        fire = KernelFire(0, _CALLS[side], choice=choice)
        for part, point in self._points(found[0][1]):
            at = replace(fire, address=point.address)
            yield KernelPlace(part, point, (at,), tuple(probe for probe, _ in found))

    def _points(self, made: KernelProbe) -> Iterator[tuple[Function, Point]]:
        if made.function is None:
            return iter(())
        image, analysis = self._target.kernel.image, self._target.analysis()
        function = analysis.function(made.function)
        if not function.blocks:
            return iter(())
        if made.edge in _LEFT:
            return points.returns(image, analysis, function, _LEFT[made.edge])
        return ((function, point) for point in points.points(image, analysis, function, "entry"))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The points of requests that clauses carry out, as probes of D, each with a row."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from gilk.arch.syscalls import NUMBERS
from gilk.engines.clauses.program import SidedClauses
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.followed_calls import FollowedCalls
from gilk.errors import UsageError
from gilk.lang.d.probes import Description, DProbe, Key
from gilk.providers import pid, syscall, usdt
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.runs.clause_request import ClauseInstrument, ClauseRequest, builtin
from gilk.session.inlined import NamedFunctions
from gilk.session.request import Builtin, Request, Wanted, expand, place_of, without_instances
from gilk.spec.conditional import NamedPoint
from gilk.splice.plan import Refusal
from gilk.targets.process import Process
from gilk.trace.probes import ProbeRow, RecordKind
from gilk.values import dataclass

#: The reason why a timed function that jumps back to its own first instruction has no probe (docs/refusals.md).
ITS_OWN_LOOP = "its-own-loop"


@dataclass
class ClausePoints:
    """The points of some requests. ``enabled`` has the probes, ``rows`` the row of each, by its number.

    ``refused``: rows of points that have no probe, with the reasons. ``files``: of images, by name.
    """

    enabled: Enabled = field(default_factory=Enabled)
    rows: dict[int, ProbeRow] = field(default_factory=dict)
    refused: list[tuple[ProbeRow, str]] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)

    def _row(self, point: str, function: str, image: str, kind: RecordKind | str, address: int = -1) -> ProbeRow:
        """A row with its own iid or, if it counts, its own counter."""
        number = len(self.rows) + len(self.refused)
        counts = kind in (RecordKind.COUNT, RecordKind.STACK)
        iid, counter = (0, number) if counts else (number + 1, -1)
        return ProbeRow(iid, point, function, image, str(kind), counter, address=address)

    def add(
        self, point: str, function: str, image: str, kind: RecordKind | str, made: ProcessProbe, clauses: Sequence[int],
        address: int = -1,
    ) -> None:  # fmt: skip
        row = self._row(point, function, image, kind, address)
        probe = DProbe(len(self.enabled.probes) + 1, *made.key)
        self.enabled.probes[probe.number] = probe
        self.enabled.clauses[probe.number] = list(clauses)
        self.enabled.in_process.append((probe, made))
        self.rows[probe.number] = row

    def refuse(self, point: str, function: str, image: str, kind: RecordKind | str, why: str) -> None:
        self.refused.append((self._row(point, function, image, kind), why))


def points_of(
    process: Process, requests: Sequence[ClauseRequest], clauses: Sequence[SidedClauses], asked: NamedFunctions
) -> ClausePoints:  # fmt: skip
    """The points of the requests. ``asked`` notes the functions. Raises UsageError `no-such-probe`, TargetError, and as
    request.expand."""
    found = ClausePoints()
    for request, sided in zip(requests, clauses, strict=True):
        if isinstance(request.where, NamedPoint):
            _add_named(found, process, request, request.where, sided)
        else:
            _add_functions(found, process, request, sided, asked)
    found.enabled.in_process = list(FollowedCalls(process).placed(found.enabled.in_process))
    return found


def _kind(request: ClauseRequest, wanted: str = "") -> RecordKind | str:
    if request.instrument is ClauseInstrument.STACK:
        return RecordKind.STACK
    return wanted or str(request.instrument)


# Functions.


def _add_functions(
    found: ClausePoints, process: Process, request: ClauseRequest, sided: SidedClauses, asked: NamedFunctions
) -> None:  # fmt: skip
    assert not isinstance(request.where, NamedPoint)
    chosen = Builtin.TIME if request.is_timed else builtin(request.instrument)
    plain = Request(request.where, chosen)
    wanted = list(expand(process, [plain]))
    asked.note(process, without_instances([plain]), ((each.loaded, each.function) for each in wanted))
    for group in _calls(wanted) if request.is_timed else ([each] for each in wanted):
        first, returns = group[0], group[1:]
        point, image = request.label(first.point.label), first.point.image
        name = request.label(first.point.function) if request.is_timed else first.point.function
        if why := _refusal(request, first):
            found.refuse(point, name, image, _kind(request, first.kind), why)
            continue
        if first.kind == RecordKind.HEAD:
            found.refuse(point, name, image, _kind(request, RecordKind.ENTRY), ITS_OWN_LOOP)
            continue
        kind = RecordKind.ENTRY if request.is_timed else str(first.kind)
        made = ProcessProbe(_key(process, first), (_site(first, "inlined" if first.inlined else request.where.where),))
        found.add(point, name, image, _beginning(request, kind), made, sided.at, place_of(first))
        found.files[image] = first.loaded.path
        if returns:
            sites = tuple(_site(each, "return") for each in returns)
            made = ProcessProbe(_key(process, returns[0]), sites, calls=not first.inlined)
            where = returns[0].point.where if first.inlined else "return"
            label = request.label(f"{image}:{first.point.function}:{where}")
            kind = _kind(request, RecordKind.RETURN)
            found.add(label, name, image, kind, made, sided.back)


def _refusal(request: ClauseRequest, wanted: Wanted) -> str:
    """The reason why there is no probe, '' if there is one; a condition needs a call, so it cannot be at an inlined
    copy."""
    if wanted.inlined and request.condition:
        return Refusal.INLINED_CALL
    return wanted.refusal or ""


def _beginning(request: ClauseRequest, kind: RecordKind | str) -> RecordKind | str:
    """The kind of the row at a call's beginning. A timed request for stacks takes these at the call's end."""
    if request.is_timed and request.instrument is ClauseInstrument.STACK:
        return RecordKind.OTHER
    return kind if request.is_timed else _kind(request, str(kind))


def _calls(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Each entry with the returns that follow it."""
    group: list[Wanted] = []
    for each in wanted:
        if each.kind != RecordKind.RETURN and group:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _key(process: Process, wanted: Wanted) -> Key:
    return f"pid{process.pid}", wanted.loaded.name, wanted.function.name, wanted.point.where


def _site(wanted: Wanted, where: str) -> ProbeSite:
    given = pid.GIVEN.get("return" if wanted.kind == RecordKind.RETURN else where, pid.INSIDE)
    start = wanted.function.start
    return ProbeSite(wanted.loaded, start, wanted.point, given, start + wanted.loaded.bias)


# Points by name.


def _add_named(
    found: ClausePoints, process: Process, request: ClauseRequest, where: NamedPoint, sided: SidedClauses
) -> None:  # fmt: skip
    before = len(found.rows)
    for made in _named(process, where, where.side):
        if where.kind == "usdt":
            provider, module, function, name = made.key
            point = f"usdt:{provider.removesuffix(str(process.pid))}:{name}"
        else:
            module, function = "", made.key[2]
            point = f"syscall:{function}:{where.side}"
        kind = RecordKind.ENTRY if request.is_timed else str(request.instrument)
        name = request.label(function) if request.is_timed else function
        found.add(request.label(point), name, module, _beginning(request, kind), made, sided.at)
        if request.is_timed:
            for back in _named(process, NamedPoint("syscall", "", function, "return"), "return"):
                label = request.label(f"syscall:{function}:return")
                found.add(label, name, "", _kind(request, RecordKind.RETURN), back, sided.back)
    if len(found.rows) == before:
        raise _no_such(process, where)


def _named(process: Process, where: NamedPoint, side: str) -> Iterator[ProcessProbe]:
    if where.kind == "usdt":
        yield from usdt.probes(process, Description(f"{where.provider}{process.pid}", "", "", where.name))
        return
    described = Description("syscall", "", where.name, side)
    # A system call that no code of the process makes has no site, and cannot happen.
    yield from (made for made in syscall.probes(process, described) if made.sites)


_BY_NAME = "system calls go by the names of syscalls(2)"


def _no_such(process: Process, where: NamedPoint) -> UsageError:
    if where.kind == "syscall":
        near = difflib.get_close_matches(where.name, NUMBERS, 3)
        hint = f"near names: {', '.join(near)}; {_BY_NAME}" if near else _BY_NAME
        return UsageError("no-such-probe", f"no code of {process.who} makes a system call {where.name!r}", hint)
    there = sorted(usdt.names(process.loaded()))
    matching = [name for name in there if fnmatch.fnmatchcase(name, where.provider)]
    hint = f"there are providers {', '.join(there)}" if there else "it has no USDT probes"
    if matching:
        hint = f"gilk dtrace -l -n '{matching[0]}$target:::' -p {process.pid} lists those of {matching[0]}"
    return UsageError("no-such-probe", f"{process.who} has no probe {where}", hint)

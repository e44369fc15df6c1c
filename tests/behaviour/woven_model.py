# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program of woven_program.py as the model of aspects runs it, and the same program with the aspects woven in.

The model says what becomes of the program's calls; the Python twins say what the functions then do.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.lang.aspect.checked import CheckedFile
from gilk.lang.aspect.deeds import Deed, Did
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from gilk.targets.process import Process
from tests.behaviour.woven_program import TWINS, Command, Commanded, Value, held, pair, shown

SECOND = 1_000_000_000
_OFTEN = 8  # commands between two readings of the reports
#: The sums by table and key: how often, how much, the least and the most.
Sums = dict[tuple[str, tuple[int, ...]], tuple[int, int, int, int]]


@dataclass
class Seen:
    """The visible results of aspects at work. Instances that are open or late are counted together."""

    outputs: list[str] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)
    sums: Sums = field(default_factory=dict)
    instances: dict[str, dict[str, object]] = field(default_factory=dict)


class Played:
    """The model, which runs the calls of one thread."""

    def __init__(self, file: CheckedFile, pid: int, tid: int = 0) -> None:
        self.model = AspectModel(automata(file))
        self._pid, self._tid, self._at = pid, tid or pid, 0
        self.deeds: list[Deed] = []
        self._total = 0

    def command(self, one: Command) -> str:
        value = self.call(one.function, *one.arguments)
        if one.function == "nothing":
            value, self._total = self._total, 0
        return shown(value)

    def call(self, function: str, *arguments: Value) -> Value:
        twin = TWINS[function]
        values = _members(arguments)
        returned = self._step(EventKind.CALL, function, arguments=arguments, values=values)
        call = self.model._threads.of(self._event(EventKind.CALL)).calls[-1]
        if call.replaced:
            self._step(EventKind.RETURN, function, value=0)
        else:
            result = twin.called(self.call, call.frame.arguments)
            if function == "nothing":
                self._total += int(result)
            told = None if twin.result == "void" else result
            returned = [result, *self._step(EventKind.RETURN, function, value=told, values=values)]
        return 0 if twin.result == "void" else held(returned[-1], twin.result)

    def _event(self, kind: EventKind, function: str = "", **more: object) -> AspectEvent:
        return AspectEvent(kind, function, at=self._at, pid=self._pid, tid=self._tid, **more)  # type: ignore[arg-type]

    def _step(self, kind: EventKind, function: str, **more: object) -> list[Value]:
        """Give the model an event. Returns the values that advice in place of a call has returned."""
        self._at += SECOND
        deeds = self.model.step(self._event(kind, function, **more))
        self.deeds += deeds
        returned = [one.words for one in deeds if one.did is Did.RETURNS]
        return [float(one) if "." in one or "e" in one else int(one) for one in returned]

    def seen(self, outputs: list[str]) -> Seen:
        reports = [(one.aspect, one.words) for one in self.deeds if one.did is Did.REPORTS]
        counts = {}
        for name, one in self.model.counts().items():
            counts[name] = _counted(
                one.matches, one.begun, one.open + one.late, one.ended, one.until, one.replaced, one.lost
            )
        return Seen(outputs, reports, _sums(self.deeds), counts)


def _members(arguments: Sequence[Value]) -> tuple[tuple[str, Value], ...]:
    """The members of the first argument if it is a struct, which is called p; else ()."""
    first = arguments[0] if arguments else ""
    if not isinstance(first, str) or "," not in first:
        return ()
    return tuple(zip(("p.x", "p.y"), pair(first), strict=True))


def _counted(
    matches: tuple[int, ...], begun: int, there: int, ended: int, until: int, replaced: int, lost: int
) -> dict[str, object]:
    return {
        "matches": matches, "begun": begun, "open or late": there, "ended": ended, "until": until,
        "replaced": replaced, "lost": lost,
    }  # fmt: skip


def _sums(deeds: Iterable[Deed]) -> Sums:
    found: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for one in deeds:
        if one.did is Did.ADDS:
            table, _, rest = one.words.partition("[")
            key, _, amount = rest.partition("] ")
            found[table, tuple(map(int, key.split(", ")))].append(int(amount))
    return {key: (len(all_), sum(all_), min(all_), max(all_)) for key, all_ in found.items()}


def played(file: CheckedFile, commands: Sequence[Command], pid: int) -> Seen:
    model = Played(file, pid)
    return model.seen([model.command(one) for one in commands])


def woven(file: CheckedFile, commands: Sequence[Command], program: Commanded, process: Process) -> Seen:
    """Run the commands in the program, with the aspects woven in, and return the same results as played() does."""
    weaving = Weaving(file, {process.pid: tuple(one.name for one in file.groups)}, [process])
    outputs, reports = list[str](), list[tuple[str, str]]()
    with weaving:
        weaving.weave()
        for number, one in enumerate(commands, 1):
            outputs.append(program.ask(one.line))
            if number % _OFTEN == 0 or number == len(commands):
                reports += [(each.aspect, each.text) for each in weaving.reports()]
        counts = counted(weaving)
        sums = tables(weaving)
    return Seen(outputs, reports, sums, counts)


def counted(weaving: Weaving) -> dict[str, dict[str, object]]:
    (process,) = weaving.processes
    summary = process.summary()
    assert (summary.drops, summary.missed) == (0, 0)
    found = {}
    for one in weaving.counts():
        assert (one.crowded, one.missed) == (0, 0), one
        found[one.name] = _counted(
            one.matches, one.begun, one.open + one.late, one.ended, one.until, one.replaced, one.lost
        )
    return found


def tables(weaving: Weaving) -> Sums:
    found: Sums = {}
    for table in weaving.tables():
        assert table.lost == 0
        for row in table.rows:
            key = struct.unpack_from(f"<{len(table.table.key)}q", row.key)
            found[table.table.name, key] = (row.count, row.sum, row.least, row.most)
    return found


def written(place: Path, text: str) -> CheckedFile:
    path = place / "some.aspect"
    path.write_text(text)
    return read_aspects(path)

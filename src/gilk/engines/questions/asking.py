# SPDX-License-Identifier: LGPL-2.1-or-later
"""Asking of a question: its D program runs until the process ends or the caller stops it; its events become an
answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from gilk.trace.d import events
from gilk.trace.d.question import Answer, Question, QuestionRecord, StackRow
from gilk.trace.d.values import Integer, Stack, Symbol, Text, Value
from gilk.values import dataclass

_MOST_RECORDS = 10_000
_Key = tuple[str, tuple[str, ...]]


@dataclass
class Asking:
    """The answer while it grows. ``tell`` is called with each record, ``began`` with the pid when all probes are in."""

    question: Question
    tell: Callable[[QuestionRecord], None] = lambda _record: None
    began: Callable[[int], None] = lambda _pid: None
    _cells: dict[_Key, dict[str, int]] = field(default_factory=dict)  # by key and aggregation
    _totals: dict[str, int] = field(default_factory=dict)
    _records: list[QuestionRecord] = field(default_factory=list)
    _left_out: int = 0
    _fired: events.ProbeFired | None = None
    _numbers: list[int] = field(default_factory=list)
    _stack: tuple[str, ...] = ()
    _notes: dict[str, int] = field(default_factory=dict)
    _end: events.Exited = events.Exited(0)

    def take(self, found: Iterable[events.Event]) -> Answer:
        """Take all events of a session; returns the answer at its end."""
        for event in found:
            self._take(event)
        return self._answer()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Began(process=int(pid)):
                self.began(pid)
            case events.Snapshot(final=True):
                self._snapshot(event)
            case events.ProbeFired():
                self._fired, self._numbers, self._stack = event, [], ()
            case events.Printed(values=values):
                self._printed(values)
            case events.RecordEnded():
                self._ended()
            case events.Noted(text=text):
                self._note(text)
            case events.Dropped(count=count):
                self._note("records or keys found no room", count)
            case events.Faulted():
                self._note("clauses could not read memory")
            case events.Refused(probe=probe, reason=reason):
                self._note(f"{probe.module}:{probe.function}:{probe.name} is not seen: {reason}")
            case events.Corrupted(what=what):
                self._note(f"the program wrote into gilk's own memory: {what}")
            case events.Exited():
                self._end = event

    def _note(self, text: str, count: int = 1) -> None:
        self._notes[text] = self._notes.get(text, 0) + count

    def _snapshot(self, found: events.Snapshot) -> None:
        for number, column in enumerate(found.columns):
            name = column.aggregation.name
            for row in found.rows:
                total = row.totals[number]
                if isinstance(total, Integer) and row.keys:
                    self._cells.setdefault(_key(row.keys), {})[name] = total.as_typed
                elif isinstance(total, Integer):
                    self._totals[name] = total.as_typed

    def _printed(self, values: tuple[Value, ...]) -> None:
        for value in values:
            if isinstance(value, Integer):
                self._numbers.append(value.as_typed)
            elif isinstance(value, Stack):
                self._stack = _frames(value)

    def _ended(self) -> None:
        fired, self._fired = self._fired, None
        if fired is None or not self._numbers:
            return
        record = QuestionRecord(fired.time, fired.tid, tuple(self._numbers), self._stack)
        if len(self._records) < _MOST_RECORDS:
            self._records.append(record)
        else:
            self._left_out += 1
        self.tell(record)

    def _answer(self) -> Answer:
        names = [column.name for column in self.question.columns]
        found = [(key, tuple(cells.get(name, 0) for name in names)) for key, cells in self._cells.items()]
        first = names.index(self.question.order) if self.question.order else 0
        found.sort(key=lambda row: (-row[1][first] if row[1] else 0, row[0]))
        stacks = tuple(StackRow(*key, numbers) for key, numbers in found) if self.question.stacks else ()
        rows = () if self.question.stacks else tuple((key[0], numbers) for key, numbers in found)
        totals = {column.name: self._totals.get(column.name, 0) for column in self.question.totals}
        notes = tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._notes.items())
        end = self._end
        return Answer(
            rows, totals, tuple(self._records), self._left_out, notes, end.restored, bool(notes), end.status, stacks
        )


def _key(keys: tuple[Value, ...]) -> _Key:
    """The first key as text, and the frames of the stack, if there is one."""
    return _text(keys[0]), _frames(keys[1]) if len(keys) > 1 and isinstance(keys[1], Stack) else ()


def _frames(stack: Stack) -> tuple[str, ...]:
    return tuple(line.decode("utf-8", "replace") for line in stack.lines)


def _text(value: Value) -> str:
    """The text of a key, which is a string or the name of an address."""
    match value:
        case Text(data=data):
            return data.decode("utf-8", "replace")
        case Symbol(text=text):
            return text.decode("utf-8", "replace")
        case Integer():
            return str(value.as_typed)
    return str(value)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""A second implementation of sequences, as naive as possible: it lists every conceivable log, and strikes out the wrong
ones.

A log has a choice for each event after the one that begins an instance: an element, the end by ``until``, or nothing. A
regular expression tells whether elements may stand in that order. None of the project's code is used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Happened:
    """A call of ``function`` with ``k``."""

    function: str
    k: int
    pid: int = 1
    tid: int = 1
    at: int = 0


@dataclass(frozen=True)
class Part:
    """An element: calls of ``function``, whose argument is bound to k if ``binds``, and is at least ``least``."""

    function: str
    binds: bool = True
    least: int = 0
    star: bool = False


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    until: tuple[Part, ...] = ()
    within: int | None = None
    unique: bool = False
    sharing: str = "any"
    instances: int = 1000


@dataclass(frozen=True)
class Run:
    """An instance: the event that each element of ``log`` matched; how and at which event it ended, or None if it is
    open."""

    log: tuple[tuple[int, int], ...]
    how: str | None = None
    when: int | None = None


END = "until"
_LETTERS = "ABCDEFGH"


def prefixes(whole: Whole) -> re.Pattern[str]:
    """A pattern of the logs that are the beginning of a path."""
    text = ""
    for letter, part in reversed(list(zip(_LETTERS, whole.parts, strict=False))):
        text = f"{letter}*{text}" if part.star else f"(?:{letter}{text})?"
    return re.compile(text)


def paths(whole: Whole) -> re.Pattern[str]:
    """A pattern of the logs that are a whole path."""
    return re.compile("".join(f"{a}*" if b.star else a for a, b in zip(_LETTERS, whole.parts, strict=False)))


def letters(log: tuple[tuple[int, int], ...]) -> str:
    return "".join(_LETTERS[number] for _, number in log)


def runs(whole: Whole, events: list[Happened]) -> tuple[list[Run], int]:
    """The instances in the order in which they begin, and the number that found no room."""
    found: list[Run] = []
    lost = 0
    for first, event in enumerate(events):
        if not _fits(whole.parts[0], event, None):
            continue
        if whole.unique:
            found = [_cut(each, "replaced", first) if _equal(whole, events, each, first) else each for each in found]
        if len(whole.parts) > 1 and sum(each.when is None or each.when > first for each in found) >= whole.instances:
            lost += 1
        else:
            found.append(_run(whole, events, first))
    return found, lost


def _equal(whole: Whole, events: list[Happened], old: Run, first: int) -> bool:
    before, now = events[old.log[0][0]], events[first]
    same = not whole.parts[0].binds or before.k == now.k
    return same and _shares(whole, before, now)


def _shares(whole: Whole, one: Happened, other: Happened) -> bool:
    if whole.sharing == "any":
        return True
    return one.pid == other.pid and (whole.sharing == "process" or one.tid == other.tid)


def _cut(run: Run, how: str, when: int) -> Run:
    """The run cut at that event, unless it has ended before or with it."""
    if run.when is not None and run.when <= when:
        return run
    return Run(tuple(each for each in run.log if each[0] <= when), how, when)


def _run(whole: Whole, events: list[Happened], first: int) -> Run:
    """The only log that is legal, of all conceivable ones."""
    late = next(
        (
            n
            for n in range(first, len(events))
            if whole.within is not None and events[n].at - events[first].at > whole.within
        ),
        None,
    )
    legal = [run for run in _all(whole, events, first) if _is_legal(whole, events, run, late)]
    assert len(legal) == 1, "there is exactly one"
    (found,) = legal
    return found if late is None else _cut_before(found, late)


def _cut_before(run: Run, late: int) -> Run:
    if run.when is not None and run.when < late:
        return run
    return Run(tuple(each for each in run.log if each[0] < late), "late", late)


def _all(whole: Whole, events: list[Happened], first: int) -> Iterator[Run]:
    """Every conceivable log."""
    choices: list[int | str | None] = [None, *range(1, len(whole.parts)), *([END] if whole.until else [])]
    if len(whole.parts) == 1:
        yield Run(((first, 0),), "ended", first)
        return
    for chosen in itertools.product(choices, repeat=len(events) - first - 1):
        numbered = list(enumerate(chosen, first + 1))
        ends = next((n for n, one in numbered if one in (END, len(whole.parts) - 1)), None)
        if ends is not None and any(one is not None for n, one in numbered if n > ends):
            continue  # nothing comes after the end
        how = None if ends is None else "until" if chosen[ends - first - 1] == END else "ended"
        yield Run(((first, 0), *((n, one) for n, one in numbered if isinstance(one, int))), how, ends)


def _is_legal(whole: Whole, events: list[Happened], run: Run, late: int | None) -> bool:
    """Whether the choice at each event is the right one; after the time limit no choice is made."""
    taken = dict(run.log)
    for number in range(run.log[0][0] + 1, len(events)):
        if run.when is not None and number > run.when:
            return True
        if late is not None and number >= late:
            if number in taken or run.when == number:
                return False
            continue
        before = tuple(each for each in run.log if each[0] < number)
        right = _right(whole, events, before, number)
        is_end = run.how == "until" and run.when == number
        if right != (END if is_end else taken.get(number)):
            return False
    return True


def _right(whole: Whole, events: list[Happened], before: tuple[tuple[int, int], ...], number: int) -> int | str | None:
    event = events[number]
    if not _shares(whole, events[before[0][0]], event):
        return None
    known = next((events[n].k for n, part in before if whole.parts[part].binds and not whole.parts[part].star), None)
    fit = [
        part
        for part in range(1, len(whole.parts))
        if prefixes(whole).fullmatch(letters((*before, (number, part)))) and _fits(whole.parts[part], event, known)
    ]
    if fit:
        return max(fit)
    return END if any(_fits(part, event, known) for part in whole.until) else None


def _fits(part: Part, event: Happened, known: int | None) -> bool:
    same = not part.binds or known is None or event.k == known
    return event.function == part.function and event.k >= part.least and same

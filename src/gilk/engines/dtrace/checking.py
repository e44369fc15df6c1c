# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks of a D program that is being written: its problems, and how many probes each of its descriptions matches.

The compiler and the search for probes are those of a session; the process or kernel is only looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import NoSuchProbe, missing
from gilk.errors import UsageError
from gilk.lang.d import tree
from gilk.lang.d.probes import described
from gilk.lang.syntax.source import Source, Span
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.machine import MachineView

_LISTS = "gilk dtrace -l lists probes"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the program. ``slug``: the name in docs/errors.md; ``tag``: DTrace's name; ``message``: the text
    that `gilk dtrace` prints.

    ``span``: the place in the program; None if the problem is in another text, such as a library. ``line`` and
    ``column`` begin at 1.
    """

    slug: str
    tag: str
    message: str
    hint: str
    line: int
    column: int
    span: Span | None


@dataclass(frozen=True, slots=True)
class MatchedDescription:
    """A description of the program. ``text``: as the compiler has expanded it; ``span``: its place; ``probes``: how
    many match it."""

    text: str
    span: Span
    line: int
    probes: int


@dataclass(frozen=True)
class Checked:
    """The result of a check. ``problems``: the first is the one for which `gilk dtrace` refuses the program."""

    problems: tuple[Problem, ...]
    descriptions: tuple[MatchedDescription, ...] = ()

    @property
    def probes(self) -> int:
        """How many probes are enabled; a probe that two descriptions match counts twice, as in `gilk dtrace`."""
        return sum(each.probes for each in self.descriptions)


def check(consumer: Consumer) -> Checked:
    """Check the only program of a consumer that has not been compiled yet."""
    source = consumer.texts[0].source
    try:
        consumer.compile()
    except DoesNotCompile as error:
        return Checked((_wrong(source, error),))
    except NoSuchProbe:
        consumer.enabled = consumer.enable(True)
        return Checked(tuple(_missing(source, consumer)), _matched(source, consumer))
    return Checked(tuple(_unfit(source, consumer)), _matched(source, consumer))


def _wrong(source: Source, error: DoesNotCompile) -> Problem:
    wrong, found = error.wrong, error.wrong.diagnostic
    span = found.span if wrong.text.source is source else None
    message = str(error) if span is not None else f"{wrong.file}, line {wrong.line}: {error}"
    return _problem(source, "bad-d-program", str(found.tag), message, found.hint, span)


def _problem(source: Source, slug: str, tag: str, message: str, hint: str, span: Span | None) -> Problem:
    if span is None:
        return Problem(slug, tag, message, hint, 0, 0, None)
    end = len(source.text)
    span = Span(min(span.start, end), min(span.end, end))
    return Problem(slug, tag, message, hint, source.line(span), column(source.text, span.start), span)


def column(text: str, at: int) -> int:
    """The column of a position, counted in letters, from 1."""
    return at - (text.rfind("\n", 0, at) + 1) + 1


def _missing(source: Source, consumer: Consumer) -> Iterator[Problem]:
    for clause in consumer.compiled.program.clauses:
        for text, place, count in _descriptions(consumer, clause):
            if not count:
                why = missing(clause, described(text), consumer.process, consumer.there)
                yield _problem(source, "no-such-probe", why.tag, str(why), _LISTS, place)


def _descriptions(consumer: Consumer, clause: tree.Clause) -> Iterator[tuple[str, Span, int]]:
    return zip(clause.probes, clause.places, consumer.enabled.matched[clause.number], strict=True)


def _unfit(source: Source, consumer: Consumer) -> Iterator[Problem]:
    """The reasons why a program that compiles would not run."""
    program = consumer.compiled.program
    if program.destructive is not None and not consumer.options.flag("destructive"):
        what = "could not enable tracing: Destructive actions not allowed"
        yield _problem(source, "destructive-in-window", "", what, "gilk dtrace -w allows them", program.destructive)
    if not consumer.has_room:
        what = "could not enable tracing: Enabling exceeds size of buffer"
        yield _problem(source, "no-room-for-records", "", what, "set option bufsize", None)
    if consumer.machine is not None:
        yield from _not_there(source, consumer, consumer.machine)


def _not_there(source: Source, consumer: Consumer, machine: MachineView) -> Iterator[Problem]:
    """The reason why a clause cannot run in a kernel."""
    from gilk.engines.dtrace.kernel_clauses import KernelClauses  # imported here: few need it

    program = consumer.compiled.program
    try:
        KernelClauses(machine.target, program, consumer.enabled, consumer.world).code(program, consumer.options)
    except UsageError as error:
        yield _problem(source, error.slug, "", error.message, error.hint, None)


def _matched(source: Source, consumer: Consumer) -> tuple[MatchedDescription, ...]:
    return tuple(
        MatchedDescription(text, place, source.line(place), count)
        for clause in consumer.compiled.program.clauses
        for text, place, count in _descriptions(consumer, clause)
    )

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes in their order, each with the reason for its place.

A program with several mistakes is refused for one of them, which should be the one that DTrace finds first; this
explains most of the order. A pass is a function from a frozen value and the state (state.py) to the value that the next
pass takes. A new pass is a module with ``run``, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gilk.lang import ir
from gilk.lang.d import items, tree
from gilk.lang.d.meaning.world import World
from gilk.lang.d.passes import (
    arguments,
    declarations,
    descriptions,
    emptiness,
    inlines,
    options,
    pragmas,
    processor,
    reading,
    records,
    scratch,
    stability,
    types,
)
from gilk.lang.d.passes.state import Invocation, SharedNames, symbols
from gilk.lang.d.passes.values import DoesNotCompile, ParsedText, ProgramText, Units, Unread
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass. ``reads``: the fields of the state that it reads and earlier passes fill; ``fills``: the fields that it
    fills.
    """

    name: str
    run: Callable[[Any, Any], Any]
    reason: str
    reads: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()


#: Passes over all texts at once, from Unread to Units, with an Invocation.
OF_ALL = (
    Pass(
        "reading", reading.run,
        "dtrace(1) parses a whole text before it looks at a clause. Where one cannot be read on, it ends.",
        reads=("macros", "options"),
    ),
    Pass(
        "arguments", arguments.run,
        "Which arguments are of use is known when all is read, and asks nothing of what the programs mean.",
        reads=("macros",),
    ),
    Pass(
        "options", options.run,
        "Sizes of strings and stacks are options, so no type can be laid out before the last pragma has been heard.",
        reads=("options",), fills=("options",),
    ),
)  # fmt: skip

#: Passes over each text in turn, from ParsedText to ParsedText, with SharedNames; a text knows the names of the texts
#: before it.
OF_EACH_TEXT = (
    Pass(
        "declarations", declarations.run,
        "DTrace declares while it parses: a declaration counts for the clauses above it, and its mistakes come first.",
        fills=("scope", "expressions", "pragmas"),
    ),
    Pass(
        "inlines", inlines.run,
        "One may rely on an inline as on what stands in it, and on that as a pragma says, which may come after both.",
        reads=("scope", "pragmas", "least"), fills=("inlines",),
    ),
    Pass(
        "pragmas", pragmas.run,
        "A pragma may stand before its name: that there is none is known when all is declared.",
        reads=("pragmas",), fills=("pragmas",),
    ),
    Pass(
        "emptiness", emptiness.run,
        "A text of nothing but pragmas is refused for them first, if they are wrong.",
        reads=("empty",),
    ),
)  # fmt: skip

#: Passes over each clause in turn, from items.Clause to tree.Clause, with SharedNames; a clause knows the variables of
#: the clauses before it, and all its mistakes are found before those of the next clause.
OF_EACH_CLAUSE = (
    Pass(
        "descriptions", descriptions.run,
        "DTrace asks how far one may rely on a description before it looks at what the clause does.",
        reads=("pragmas", "least"),
    ),
    Pass(
        "types", types.run,
        "An action's arguments are known when they have types; DTrace types a whole clause before it makes code of it.",
        reads=("scope", "expressions"), fills=("scope",),
    ),
    Pass(
        "stability", stability.run,
        "What has no meaning is refused for that, however little one may rely on it; DTrace asks while it types.",
        reads=("scope", "pragmas", "inlines", "least"),
    ),
    Pass(
        "scratch", scratch.run,
        "Which variables may hold memory of alloca() is known when statements and the predicate have types.",
        reads=("scope", "allocated"), fills=("allocated",),
    ),
    Pass(
        "records", records.run,
        "Records are laid out of typed values, statement by statement, as DTrace does when it makes code: of two "
        "mistakes in what actions are given the upper one is told.",
        reads=("scope", "expressions", "clauses"), fills=("scope", "destructive"),
    ),
    Pass(
        "processor", processor.run,
        "Whatever a clause does by now, its probe does not fire on other processors.",
        reads=("processor",),
    ),
)  # fmt: skip


def run(
    unread: Unread, invocation: Invocation, world: World | None = None
) -> tuple[tree.Program, tuple[ProgramText, ...], SharedNames]:
    """The program, the text of each of its clauses, and the meanings of its names. Raises DoesNotCompile."""
    units: Units = _through(OF_ALL, unread, invocation)
    state = symbols(invocation.options, world)
    origins: list[ProgramText] = []
    for unit in (*units.libraries, *units.programs):
        if unit.text.is_library and state.pragmas.leaves_out(unit.library, unit.program.items):
            continue
        _text(unit, state, origins)
        origins += [unit.text] * (len(state.clauses) - len(origins))
    return state.program(), tuple(origins), state


def _text(unit: ParsedText, state: SharedNames, origins: list[ProgramText]) -> None:
    with unit.blamed():
        checked: ParsedText = _through(OF_EACH_TEXT, unit, state)
    for item in checked.program.items:
        if not isinstance(item, items.Clause):
            continue
        try:
            with unit.blamed():
                _clause(item, unit, state)
        except DoesNotCompile as error:
            if not unit.text.is_library:
                state.clauses.append(_idle(item, unit, state))
                error.begun = state.program(), (*origins, *[unit.text] * (len(state.clauses) - len(origins)))
            raise


def _clause(item: items.Clause, unit: ParsedText, state: SharedNames) -> None:
    destructive = state.destructive
    clause: tree.Clause = _through(OF_EACH_CLAUSE, item, state)
    if unit.text.is_library:  # DTrace compiles its clauses, too, and forgets them
        state.destructive = destructive
    else:
        state.clauses.append(_located(clause, item, unit))


def _idle(item: items.Clause, unit: ParsedText, state: SharedNames) -> tree.Clause:
    """A clause with the descriptions of this one that does nothing."""
    probes = tuple(probe.text for probe in item.probes)
    return _located(tree.Clause(item.span, probes, ir.Function(len(state.clauses) + 1, None, ())), item, unit)


def _located(clause: tree.Clause, item: items.Clause, unit: ParsedText) -> tree.Clause:
    places = tuple(each.span for each in item.probes)
    return replace(clause, lines=tuple(unit.program.place(place)[1] for place in places), places=places)


def _through(passes: Sequence[Pass], value: Any, state: Any) -> Any:
    for each in passes:
        value = each.run(value, state)
    return value

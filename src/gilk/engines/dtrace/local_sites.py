# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions that a program names (``local`k``): their types when it is compiled, and the expressions that
fetch them at each place when it is enabled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gilk.engines.dtrace.local_expressions import Why
from gilk.engines.dtrace.local_variables import LocalPlace, Whereabouts
from gilk.lang.d import tree
from gilk.lang.d.meaning.world import LocalVariable
from gilk.lang.d.probes import Description, DProbe
from gilk.lang.facts import facts
from gilk.lang.ir import Constant, Expression, Given
from gilk.lang.types import UINT64
from gilk.providers import pid, usdt
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.targets.base import Code, Target

_NEAR, _SHOWN = 3, 8  # how many names a hint has
_NO_VALUE = Constant(UINT64, 0)
_WORDS = {
    Why.NO_DEBUG_INFORMATION: "there is no debug information about that code",
    Why.NOT_IN_SCOPE: "no such variable is in scope there",
    Why.NOT_DECLARED_YET: "it is declared further down",
    Why.DECLARED_TWICE: "several variables of that name are in scope there",
    Why.OPTIMIZED_OUT: "the compiler has optimized it out",
    Why.NOT_HERE: "it is in no place that debug information knows at that instruction",
    Why.NOT_STORED_YET: "the function has not stored it yet",
    Why.ONLY_IN_CALLER: "only the caller still has its value",
    Why.IN_PIECES: "it is in several pieces",
    Why.IN_VECTOR: "it is in a vector register",
    Why.IN_REGISTER: "it is in a register, and has no address",
    Why.IN_MEMORY: "it is in memory",
    Why.OF_THREAD: "each thread has its own",
    Why.COMPUTED: "debug information tells it in a way that gilk does not compute",
    Why.NO_FRAME: "the function's frame cannot be found there",
    Why.BELOW_STACK: "its memory is not part of the stack there",
    Why.AFTER: "the probe is behind an instruction",
}


def said(why: Why) -> str:
    """A reason with its name."""
    return f"{_WORDS[why]} ({why})"


def found(process: Target, description: Description, function: str, name: str) -> LocalVariable | None:
    """The variable at the probes of a description (World.local)."""
    probes = [probe for provider in (pid, usdt) for probe in provider.probes(process, description)]
    sites = [site for probe in probes for site in probe.sites]
    if not sites:
        provider = description.provider
        of_functions = provider.startswith("pid") or provider in usdt.names(process.loaded())
        return None if of_functions or provider.endswith(str(process.pid)) else _of_no_function()
    there = [Whereabouts(process, site) for site in sites]
    places = [each.local(function, name) for each in there]
    if not any(place.placed for place in places):
        return _lost(there, places, function, name)
    types = tuple(dict.fromkeys(each.type for each in places if each.placed and each.type is not None))
    memory = any(each.placed is not None and each.placed.address is not None for each in places)
    value = any(each.placed is not None and each.placed.value is not None for each in places)
    return LocalVariable(types, memory, value, True)


def _of_no_function() -> LocalVariable:
    return LocalVariable(why="the probe is at no place in a function: only those of pid and USDT are")


def _lost(there: Sequence[Whereabouts], places: Sequence[LocalPlace], function: str, name: str) -> LocalVariable:
    """A variable that can be had at no probe; the reason is that of the first at which it is declared."""
    number = next((number for number, each in enumerate(places) if each.is_declared), 0)
    why = places[number].why or Why.NOT_HERE
    hint = _hint(there[number], function, name) if why is Why.NOT_IN_SCOPE else ""
    return LocalVariable(declared=places[number].is_declared, why=said(why), hint=hint)


def _hint(place: Whereabouts, function: str, name: str) -> str:
    inlined = place.inlined_with(name)
    if inlined and not function:
        return f"{inlined[0]}, which is inlined there, has one: local`{inlined[0]}`{name}"
    names = place.names(function)
    near = difflib.get_close_matches(name, names, _NEAR)
    if near:
        return f"near names: {', '.join(near)}"
    return f"in scope there: {', '.join(names[:_SHOWN])}" if names else ""


# Enabling.


def with_locals(
    probes: Iterable[tuple[DProbe, ProcessProbe]], clauses: Mapping[int, Iterable[int]], program: tree.Program,
    process: Code,
) -> Iterator[tuple[DProbe, ProcessProbe]]:  # fmt: skip
    """The probes with places that give the variables which their clauses name; where one cannot be had, the place gets
    the reason. ``clauses``: those that a probe runs, by its number."""
    used = {clause.number: facts(clause.function).locals for clause in program.clauses}
    kept: dict[tuple[int, tuple[Expression | None, ...]], Given] = {}
    for probe, made in probes:
        numbers = [used[clause] for clause in clauses[probe.number] if used[clause]]
        if not numbers:
            yield probe, made
            continue
        sites = tuple(_with_locals(site, numbers, program.locals, process, kept) for site in made.sites)
        yield probe, replace(made, sites=sites)


def _with_locals(
    site: ProbeSite, used: Iterable[frozenset[int]], locals_: Sequence[tree.NamedLocal], process: Code,
    kept: dict[tuple[int, tuple[Expression | None, ...]], Given],
) -> ProbeSite:  # fmt: skip
    there, lost = Whereabouts(process, site), ""
    values: list[Expression | None] = [None] * len(locals_)
    for numbers in used:
        for number in numbers:
            local = locals_[number]
            both = replace(local, address=not local.address)
            either = both in locals_ and locals_.index(both) in numbers
            values[number], why = _value(there.local(local.function, local.name), local.address, either)
            lost = lost or (f"{_shown(local)}: {said(why)}" if why is not None else "")
    key = id(site.given), tuple(values)
    given = kept.setdefault(key, replace(site.given, locals=tuple(values)))
    return replace(site, given=given, lost=lost)


def _value(place: LocalPlace, address: bool, either: bool) -> tuple[Expression | None, Why | None]:
    """The expression for an address or a value, or the reason why there is none. ``either``: the clause takes the one
    that there is, and sees a 0 instead of the other."""
    if place.placed is None:
        return None, place.why
    wanted = place.placed.address if address else place.placed.value
    if wanted is not None:
        return wanted, None
    return (_NO_VALUE, None) if either else (None, Why.IN_REGISTER if address else Why.IN_MEMORY)


def _shown(local: tree.NamedLocal) -> str:
    return f"local`{local.function}`{local.name}" if local.function else f"local`{local.name}"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Facts derived from the representation agree with the C that is printed from it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce
from operator import or_

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang import ir, machine
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.unit import TranslationUnit, unit
from gilk.lang.facts import Facts, facts, fetched
from gilk.lang.runtime import FUNCTIONS, Does
from gilk.lang.syntax.source import Source
from gilk.lang.to_c.expressions import ExpressionPrinter
from gilk.lang.to_c.sites import Takes, entry
from gilk.lang.types import INT, UINT64
from gilk.providers import pid, proc, syscall
from gilk.providers.operands import operands
from tests.lang.d.programs import HERE
from tests.lang.d.worlds import Known

CLAUSE = re.compile(r"^static void clause_(\d+)\(.*?^}", re.MULTILINE | re.DOTALL)
#: What may be said of code that does not do it: it is known only when the C is there.
MORE = Does.SCRATCH | Does.FAILS
PROGRAMS = [path.read_text() for path in sorted(HERE.glob("run/*.d"))]
PROGRAMS += [f"BEGIN {{ {body} }}" for body in (
    "trace(*(int *)arg3)", "trace(uregs[R_RIP] + arg9)", "@[ustack()] = count()", "trace(ucaller)", "stop()",
    "copyout(alloca(8), 1, 8)", "trace(errno)", "trace(vtimestamp)", "trace(cwd)", "x = probefunc", "chill(5)",
    "speculate(speculation()); trace(1)", "*(char *)alloca(1) = 1", "trace(fds[1].fi_pathname)", "raise(1)",
    "y = stringof(arg1)",
)]  # fmt: skip


def compiled(text: str) -> TranslationUnit | None:
    try:
        program = compile_programs(
            [ProgramText("script", Source("test", text))], Macros({}, ("test",)), Options(), Known()
        )
    except DoesNotCompile:
        return None
    return unit(program.program, {}, [], [])


def shown(code: str) -> Does:
    names = re.findall(r"\b(gd_\w+)\(", code)
    found = reduce(or_, (FUNCTIONS[name].does for name in names if name in FUNCTIONS), Does.NOTHING)
    found |= Does.ERROR if "event->error" in code else Does.NOTHING
    return found | (Does.CALLS if found & Does.SIGNALS else Does.NOTHING)  # sent behind the clauses


@pytest.mark.parametrize("text", PROGRAMS)
def test_facts_about_clauses_agree_with_the_printed_c(text: str) -> None:
    made = compiled(text)
    for found in CLAUSE.finditer(made.text) if made is not None else ():
        needs = made.needs[int(found[1])] if made is not None else None
        assert needs is not None
        assert needs.arguments == set(map(int, re.findall(r"event->arg\[(\d)\]", found[0])))
        assert shown(found[0]) & ~needs.does == Does.NOTHING
        assert needs.does & ~shown(found[0]) & ~MORE & ~Does.DESTROYS == Does.NOTHING


def test_facts_of_most_programs_are_compared() -> None:
    assert sum(compiled(text) is not None for text in PROGRAMS) > 0.9 * len(PROGRAMS)


# Of places.

_SYSCALLS = list(syscall._GIVEN.values())
GIVEN = [*pid.GIVEN.values(), pid.INSIDE, *_SYSCALLS]
GIVEN += [event.given(place) for events in proc._EVENTS.values() for event in events for place in _SYSCALLS]
GIVEN += [ir.Given(operands("-4@%edi 1@%ch 8@-8(%rbp,%rax,8) 4@$7 8@here(%rip)", {"here": 64}.get))]
EXPRESSIONS = [
    value
    for given in GIVEN
    for value in (*given.arguments, given.select, given.condition, given.error)
    if value is not None
]
#: What the C of a place asks the host, and what of the state that takes.
_TAKES = {"d_word": ("rsp",), "d_number": ("rsp",), "d_error": ("rax",)}
ALL = Facts(Does.ERROR, frozenset(range(10)))


@pytest.mark.parametrize("value", dict.fromkeys(EXPRESSIONS), ids=lambda value: type(value).__name__)
def test_facts_about_values_of_a_place_agree_with_the_printed_c(value: ir.Expression) -> None:
    code, found = ExpressionPrinter(0, 0).emit(value), facts(value)
    shown = set(re.findall(r"regs->(\w+)", code))
    shown.update(register for name, taken in _TAKES.items() if f"{name}(regs" in code for register in taken)
    assert found.registers == shown
    assert bool(found.does & Does.READS) == ("d_word(" in code)
    assert found.calls == any(name in code for name in ("d_word(", "host_"))
    assert bool(found.does & Does.BEGINS) == (re.search(r"\bstart\b", code) is not None)
    assert {machine.StackWord(n) for n in found.stack} == {
        machine.StackWord(int(n) // 8) for n in re.findall(r"regs->rsp \+ (\d+)", code)
    }


@pytest.mark.parametrize("given", GIVEN)
def test_only_arguments_that_clauses_read_are_fetched(given: ir.Given) -> None:
    everything = fetched(given, ALL)
    only = [fetched(replace(given, select=None, condition=None), Facts(arguments=frozenset((n,)))) for n in range(10)]
    assert all(one.registers <= everything.registers and not one.does & ~everything.does for one in only)
    assert [one == Facts() for one in only[len(given.arguments) :]] == [True] * (10 - len(given.arguments))


@pytest.mark.parametrize(
    "arguments, used, takes",
    [
        ((machine.CallArg(0),), {0}, Takes.VALUES),
        ((machine.CallArg(6),), {0}, Takes.REGISTERS),
        ((machine.CallArg(0), machine.CallArg(6)), {0}, Takes.VALUES),
        ((machine.Reg("rbx"),), {0}, Takes.REGISTERS),
        ((machine.Reg("rbx"),), set(), Takes.NOTHING),
        ((ir.Constant(UINT64, 1),), {0, 3}, Takes.NOTHING),
        ((machine.CallResult(), machine.Start()), {0, 1}, Takes.VALUES),
    ],
)
def test_a_place_takes_the_cheapest_sufficient_form(
    arguments: tuple[ir.Expression, ...], used: set[int], takes: Takes
) -> None:
    assert entry(0, Facts(arguments=frozenset(used)), ir.Given(arguments)).takes is takes


def test_values_whose_computation_may_fail_are_not_allowed_at_places() -> None:
    divided = ir.Binary(INT, "/", machine.CallArg(0), machine.CallArg(1))
    with pytest.raises(AssertionError):
        entry(0, Facts(arguments=frozenset((0,))), ir.Given((divided,)))

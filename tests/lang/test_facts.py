# SPDX-License-Identifier: LGPL-2.1-or-later
"""Facts that are read off the representation, beside the C that is printed of it: what the one says the other shows."""

from __future__ import annotations

import re
from functools import reduce
from operator import or_

import pytest

from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.unit import Unit, unit
from gilk.lang.runtime import FUNCTIONS, Does
from gilk.lang.syntax.source import Source
from gilk.session.dtrace.compiled import DoesNotCompile, Text, compile_programs
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


def compiled(text: str) -> Unit | None:
    try:
        program = compile_programs([Text("script", Source("test", text))], Macros({}, ("test",)), Options(), Known())
    except DoesNotCompile:
        return None
    return unit(program.program, {}, [], [])


def shown(code: str) -> Does:
    names = re.findall(r"\b(gd_\w+)\(", code)
    found = reduce(or_, (FUNCTIONS[name].does for name in names if name in FUNCTIONS), Does.NOTHING)
    found |= Does.ERROR if "event->error" in code else Does.NOTHING
    return found | (Does.CALLS if found & Does.SIGNALS else Does.NOTHING)  # sent behind the clauses


@pytest.mark.parametrize("text", PROGRAMS)
def test_facts_are_what_the_code_shows(text: str) -> None:
    made = compiled(text)
    for found in CLAUSE.finditer(made.text) if made is not None else ():
        needs = made.needs[int(found[1])] if made is not None else None
        assert needs is not None
        assert needs.arguments == set(map(int, re.findall(r"event->arg\[(\d)\]", found[0])))
        assert shown(found[0]) & ~needs.does == Does.NOTHING
        assert needs.does & ~shown(found[0]) & ~MORE & ~Does.DESTROYS == Does.NOTHING


def test_most_programs_are_compared() -> None:
    assert sum(compiled(text) is not None for text in PROGRAMS) > 0.9 * len(PROGRAMS)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of programs, by the rules of the Guide's chapter on it."""

from __future__ import annotations

import re

import pytest

from gilk.engines.dtrace import verbose
from gilk.engines.dtrace.compiled import Compiled, ProgramText, compile_programs
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.builtins import BUILTINS
from gilk.lang.d.meaning.functions import FUNCTIONS
from gilk.lang.d.options import Options
from gilk.lang.d.stability import NAMES, Attributes, read
from gilk.lang.syntax.source import Source
from gilk.render.d.verbose import tell_program
from tests.lang.d.worlds import Known


def compiled(text: str) -> tuple[Compiled, ProgramText]:
    program = ProgramText("description", Source("test.d", text))
    return compile_programs([program], Macros({"target": 1}), Options(), Known()), program


def statements(text: str) -> str:
    return str(verbose.of_program(*compiled(text)).statements)


def descriptions(text: str) -> str:
    return str(verbose.of_program(*compiled(text)).descriptions)


def test_attributes_are_read_as_they_are_written() -> None:
    assert str(read("evolving/STABLE/isa")) == "Evolving/Stable/ISA"
    assert [read(text) for text in ("", "Stable/Stable", "Stable/Stable/Stable", "Stable/Stable/ISA/CPU")] == 4 * [None]


def test_each_of_the_three_attributes_is_compared_separately() -> None:
    one, other = Attributes(6, 1, 5), Attributes(5, 6, 0)
    assert one.lowest(other) == Attributes(5, 1, 0)
    assert one.below(other) and other.below(one) and not one.below(one)


def test_names_with_special_attributes_exist() -> None:
    assert NAMES.keys() <= {*FUNCTIONS, *BUILTINS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN { self->x = 1; trace(arg0 + self->x + 1); @[pid] = sum(2); }", "Stable/Stable/Common"),
        ("BEGIN", "Stable/Stable/Common"),
        ("BEGIN { trace(htons(1)); }", "Evolving/Evolving/Common"),
        ("BEGIN /getmajor(1) == 1/ { x = 1; }", "Evolving/Evolving/Common"),
        ("BEGIN { trace(lib`number); }", "Private/Private/Unknown"),
        ("BEGIN { trace(sizeof (thing_t *)); }", "Private/Private/Unknown"),
        ("BEGIN { trace(sizeof (struct thing)); }", "Private/Private/Unknown"),
        ("struct s { int x; }; typedef int t; BEGIN { trace((t)sizeof (struct s)); }", "Stable/Stable/Common"),
        ("dtrace:::BEGIN { trace(probename); }", "Stable/Stable/Common"),
        ("dtrace:::BEGIN { trace(probemod); }", "Private/Private/Unknown"),
        ("BEGIN { trace(probename); }", "Unstable/Unstable/Common"),
        ("syscall:::entry { trace(args[0]); }", "Private/Private/ISA"),
        ("int x;\n#pragma D attributes Internal/Stable/CPU x\nBEGIN { x = 1; }", "Internal/Stable/CPU"),
        ("inline int f[int n] = htonl(n); BEGIN { trace(f[1]); }", "Evolving/Evolving/Common"),
        ("inline int f = htonl(1);\n#pragma D attributes Stable/Stable/ISA f\nBEGIN { x = f; }", "Stable/Stable/ISA"),
        ("BEGIN { trace(1); }\nEND { trace(htons(1)); }", "Evolving/Evolving/Common"),
        ("int x;", "Stable/Stable/Common"),
    ],
)  # fmt: skip
def test_statements_are_as_stable_as_the_least_stable_name_they_use(text: str, expected: str) -> None:
    assert statements(text) == expected


_OWN = """provider own { probe start(int, char *); };
#pragma D attributes Evolving/Evolving/ISA provider own provider
#pragma D attributes Unstable/Evolving/ISA provider own name
#pragma D attributes External/External/CPU provider own args
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", "Unstable/Unstable/Common"),
        ("dtrace:::BEGIN", "Stable/Stable/Common"),
        ("profile:::tick-1s", "Evolving/Evolving/Common"),
        ("syscall:::entry", "Evolving/Evolving/Common"),
        ("syscall::read:entry", "Private/Private/ISA"),
        ("syscall::r*:entry", "Evolving/Evolving/Common"),
        ("sys*::read:entry", "Unstable/Unstable/Common"),
        ("pid$target:::entry", "Evolving/Evolving/ISA"),
        ("pid$target::main:entry", "Private/Private/Unknown"),
        ("proc:::exec", "Evolving/Evolving/ISA"),
        ("foreign$target:::x", "Private/Private/Unknown"),
        (_OWN + "own$target:::", "Evolving/Evolving/ISA"),
        (_OWN + "own$target:::start", "Unstable/Evolving/ISA"),
        ("syscall::read:entry, dtrace:::BEGIN", "Private/Private/ISA"),
        ("fbt:::entry", "Evolving/Evolving/Common"),
        ("rawtp:::sched_switch", "Private/Private/ISA"),
        ("sdt:sched::sched_switch", "Private/Private/Unknown"),
    ],
)
def test_descriptions_are_as_stable_as_their_least_stable_part(text: str, expected: str) -> None:
    assert descriptions(text) == expected


def test_verbose_output_of_a_compiled_program_has_its_stability() -> None:
    found = verbose.of_program(*compiled(_OWN + "own1:::start, own1:::start, dtrace:::END { trace(1); }"))
    told = tell_program("script", "test.d", found, alone=True)
    assert told.startswith("\nStability attributes for script test.d:\n\n\tMinimum Probe Description Attributes\n")
    assert told.count("\nown1:::start\n") == told.count("\ndtrace:::END\n") == 1
    part = told.partition("\nown1:::start\n")[2].partition("\ndtrace:::END\n")[0]
    assert part == (
        "\n\tProbe Description Attributes\n"
        "\t\tIdentifier Names: Unstable\n\t\tData Semantics:   Evolving\n\t\tDependency Class: ISA\n"
        "\n\tArgument Attributes\n"
        "\t\tIdentifier Names: External\n\t\tData Semantics:   External\n\t\tDependency Class: CPU\n"
        "\n\tArgument Types\n\t\targs[0]: int\n\t\targs[1]: char *\n\n"
    )


def test_types_of_arguments_have_the_names_that_their_definition_gives_them() -> None:
    text = """
        typedef struct told { int a; } told_t; struct raw { int a; };
        translator told_t < struct raw *R > { a = R->a; };
        provider own {
            probe one(struct raw *R, told_t **, char *) : (told_t *R, struct raw *R);
            probe two(told_t *, int);
        };
        own1:::one, own1:::two { trace(1); }"""
    found = verbose.of_program(*compiled(text))
    told = tell_program("script", "test.d", found, alone=True)
    assert re.findall(r"args.\d.: (.*)", told) == ["told_t *", "struct raw *", "told_t *", "int"]


def test_a_program_as_stable_as_amin_requires_compiles() -> None:
    least = "#pragma D option amin=evolving/evolving/common\n"
    assert statements(least + "dtrace:::BEGIN { trace(htonl(1)); }") == "Evolving/Evolving/Common"

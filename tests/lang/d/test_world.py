# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types and symbols of a process: named in each of D's ways, and not looked up for programs that name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning import network
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from tests.lang.d.programs import HERE
from tests.lang.d.worlds import Known


def compiled(text: str, world: Known) -> tree.Program:
    return compile_programs(
        [ProgramText("script", Source("test", text))], Macros({}, ("test",)), Options(), world
    ).program


@pytest.mark.parametrize(
    "expression",
    [
        "((struct thing *)arg0)->b",
        "((struct lib`thing *)arg0)->b",
        "((lib`struct thing *)arg0)->b",
        "((1`lib`struct thing *)arg0)->b",
        "((lib`thing_t *)arg0)->b",
        "((thing_t *)arg0)->b",
        "((link_t)arg0)->b",
        "sizeof (thing_t)",
        "sizeof thing_t",
        "sizeof (in6_addr_t)",
        "sizeof (struct thing)",
        "offsetof(struct thing, b)",
        "`number",
        "lib`number + a.out`number",
        "(int)`f",
        "&`number",
        "(long)&`untyped",
        "*(int *)&lib`untyped",
        "xlate <thing_t> (1).a",
    ],
)
def test_named_types_and_symbols_of_a_process_are_found(expression: str) -> None:
    before = "translator thing_t < int n > { a = n; };"
    compiled(f"{before} struct thing x; thing_t y; BEGIN {{ trace({expression}); }}", Known())


@pytest.mark.parametrize("path", sorted(HERE.glob("run/*.d")), ids=lambda path: path.stem)
def test_programs_that_name_nothing_of_a_process_look_nothing_up(path: Path) -> None:
    world = Known()
    try:
        compiled(path.read_text(), world)
    except DoesNotCompile:
        return  # it needs arguments
    # the process's own come first
    assert not {*world.asked} - {record.tag for record in network.RECORDS.values()} - network.TYPES.keys()


def test_only_args_looks_up_parameters_of_functions() -> None:
    world = Known()
    compiled("pid1:::entry { trace(arg0); }", world)
    assert world.asked == []
    compiled("pid1:::entry { trace(args[0]->b); }", world)
    assert world.asked == ["pid1:::entry"]


def test_types_that_the_program_declares_come_first() -> None:
    world = Known()
    compiled("struct thing { int c; }; BEGIN { trace(((struct thing *)arg0)->c); }", world)
    assert world.asked == []


class InKernel(Known):
    in_kernel = True


def test_variables_of_functions_are_refused_in_programs_about_a_kernel() -> None:
    with pytest.raises(DoesNotCompile, match="variables of functions can be had in processes alone") as error:
        compiled("fbt::vfs_read:entry { trace(local`file); }", InKernel())
    assert error.value.wrong.diagnostic.tag == "D_KERNEL"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes: each says why it stands where it does, and needs only what earlier ones give."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import get_type_hints

import pytest

from gilk.engines.dtrace.compiled import compile_programs
from gilk.lang.d import items, tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.passes.order import OF_ALL, OF_EACH_CLAUSE, OF_EACH_TEXT, Pass
from gilk.lang.d.passes.state import Invocation, SharedNames
from gilk.lang.d.passes.values import DoesNotCompile, ParsedText, ProgramText, Units, Unread
from gilk.lang.syntax.source import Source

LISTS = [
    pytest.param(OF_ALL, Unread, Units, Invocation, id="of all"),
    pytest.param(OF_EACH_TEXT, ParsedText, ParsedText, SharedNames, id="of each text"),
    pytest.param(OF_EACH_CLAUSE, items.Clause, tree.Clause, SharedNames, id="of each clause"),
]
PASSES = (*OF_ALL, *OF_EACH_TEXT, *OF_EACH_CLAUSE)
#: The parts of the state that exist before the first pass.
GIVEN = {"macros", "options", "scope", "expressions", "pragmas", "least", "empty", "processor", "clauses", "allocated"}


@pytest.mark.parametrize(("passes", "first", "last", "state"), LISTS)
def test_a_pass_takes_the_result_of_the_one_before_it(
    passes: tuple[Pass, ...], first: type, last: type, state: type
) -> None:
    value = first
    for each in passes:
        hints = get_type_hints(each.run)
        taken, its_state = (hints[name] for name in inspect.signature(each.run).parameters)
        assert (taken, its_state) == (value, state), each.name
        value = hints["return"]
    assert value is last


def test_values_are_frozen() -> None:
    for each in (Unread, ParsedText, Units, items.Clause, tree.Clause):
        made = object.__new__(each)
        with pytest.raises(AttributeError):
            setattr(made, fields(each)[0].name, None)


def test_each_pass_is_a_module_with_a_reason_for_its_place() -> None:
    for each in PASSES:
        assert each.run.__module__ == f"gilk.lang.d.passes.{each.name}"
        assert len(each.reason.split()) > 8, each.name
    assert len({each.reason for each in PASSES}) == len(PASSES)


def _asked(module: ast.Module) -> Iterator[str]:
    """The fields of the state that the module names."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("state", "self.state", "self._state"):
            yield node.attr


@pytest.mark.parametrize("number", range(len(PASSES)), ids=[each.name for each in PASSES])
def test_a_pass_uses_only_the_earlier_passes_that_it_names(number: int) -> None:
    one, earlier = PASSES[number], {each.name for each in PASSES[:number]}
    module = inspect.getmodule(one.run)
    assert module is not None
    text = ast.parse(inspect.getsource(module))
    assert set(_asked(text)) <= {*one.reads, *one.fills}, one.name
    assert set(one.reads) <= GIVEN.union(*(each.fills for each in PASSES[:number])), one.name
    names = {each.name for each in PASSES} - earlier - {one.name}
    imported = {alias.name for node in ast.walk(text) if isinstance(node, ast.ImportFrom)
                and node.module == "gilk.lang.d.passes" for alias in node.names}  # fmt: skip
    assert not imported & names, one.name


def refused(text: str, *more: str) -> str:
    texts = [ProgramText("script", Source("test.d", each)) for each in (text, *more)]
    with pytest.raises(DoesNotCompile) as caught:
        compile_programs(texts, Macros({}, ("test.d",)), Options())
    return caught.value.wrong.diagnostic.tag


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("BEGIN { nonesuch(); } BEGIN { trace(; }", "D_SYNTAX"),
        ("struct a { struct b b; }; BEGIN { (0)(1); }", "D_DECL_INCOMPLETE"),
        ("BEGIN { (0)(1); } struct a { struct b b; };", "D_FUNC_IDENT"),
        ("#pragma D option quiet=7\nBEGIN { trace(; }", "D_PRAGMA_OPTSET"),
        ("typedef nonesuch_t mine_t; BEGIN { nonesuch(); }", "D_SYNTAX"),
        ("BEGIN { trace(offsetof(nonesuch_t, a)); nonesuch(); }", "D_SYNTAX"),
        ("#pragma D option quiet=7\nBEGIN { nonesuch(); }", "D_PRAGMA_OPTSET"),
        ("BEGIN { nonesuch(); } void x;", "D_DECL_VOIDOBJ"),
        ("#pragma D binding \"1.0\" x\nBEGIN { nonesuch(); }", "D_PRAGMA_UNUSED"),
        ("BEGIN { clear(@none); trace(nowhere); }", "D_IDENT_UNDEF"),
        ("BEGIN { clear(@none); } BEGIN { trace(nowhere); }", "D_CLEAR_AGGBAD"),
        ("BEGIN { trace(1); speculate(1); clear(@none); }", "D_SPEC_DREC"),
    ],
)  # fmt: skip
def test_the_mistake_found_by_the_earlier_pass_is_reported(text: str, first: str) -> None:
    assert refused(text) == first


def test_a_predicate_knows_variables_that_its_statements_declare() -> None:
    for text in ("BEGIN /x == 0/ { x = 1; }", "BEGIN /x++/ { y = x; }"):
        assert compile_programs([ProgramText("script", Source("test.d", text))], Macros(), Options()).program.variables
    assert refused("BEGIN /nowhere/ { nonesuch(); }") == "D_FUNC_UNDEF"


def test_a_declaration_counts_for_the_clauses_above_it() -> None:
    texts = [ProgramText("script", Source("test.d", "BEGIN { x = 300; exit(x); } char x;"))]
    (variable,) = compile_programs(texts, Macros(), Options()).program.variables
    assert (variable.name, variable.type.__class__.__name__, getattr(variable.type, "size", 0)) == ("x", "Integer", 1)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""docs/d: each page has exactly the rows of its table; programs that it calls refused are refused, and the others
compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang.d import tags
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning import tags as meaning_tags
from gilk.lang.d.meaning.builtins import BUILTINS
from gilk.lang.d.meaning.builtins import OF_THE_KERNEL as VARIABLES_OF_THE_KERNEL
from gilk.lang.d.meaning.functions import FUNCTIONS, OF_THE_KERNEL, Role
from gilk.lang.d.options import REFUSED, ROWS, Options, OptionShape
from gilk.lang.d.printf import PrintfTag
from gilk.lang.syntax.source import Source
from gilk.providers.pid_mistakes import PidTag
from gilk.render.d.messages import FAULTS, Fault

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "d"
_WORD = re.compile(r"`(\w+)[^`]*`")


def rows(page: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of all tables of a page: the heading above each, and its cells."""
    heading = ""
    for line in (PAGES / page).read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            yield heading, [cell.strip() for cell in line.strip("|").split(" |")]


def named(page: str, *headings: str, other: bool = False) -> list[str]:
    """The names in the first cells of the tables under these headings, or under all; with ``other``, under all but
    these."""
    found = (cells for heading, cells in rows(page) if not headings or (heading in headings) is not other)
    return [word for cells in found for word in _WORD.findall(cells[0])]


def tag_of(statement: str, before: str = "", probe: str = "BEGIN") -> str:
    """The tag of the error in the statement; "" if there is none."""
    source = Source("test", f"{before} {probe} {{ {statement} }}")
    try:
        compile_programs([ProgramText("script", source)], Macros({"target": 1}), Options())
    except DoesNotCompile as error:
        return error.wrong.diagnostic.tag
    return ""


# Functions.

_BEFORE = "self int s; BEGIN { @ = count(); @by[pid] = count(); }"
_NOT_FUNCTIONS = ("Formats",)
_OF_THE_KERNEL = "Actions of kernel programs only"
_REFUSED = (_OF_THE_KERNEL,)


def test_actions_names_all_functions_once() -> None:
    found = named("actions.md", *_NOT_FUNCTIONS, other=True)
    assert sorted(found) == sorted(FUNCTIONS)


def examples() -> list[str]:
    return [
        cells[-1].strip("`") for heading, cells in rows("actions.md") if heading not in (*_NOT_FUNCTIONS, *_REFUSED)
    ]


@pytest.mark.parametrize("example", examples())
def test_examples_of_actions_compile(example: str) -> None:
    assert tag_of(example, _BEFORE) == ""


def test_each_row_has_an_example_of_its_own() -> None:
    for heading, cells in rows("actions.md"):
        if heading not in (*_NOT_FUNCTIONS, *_REFUSED):
            (name,) = _WORD.findall(cells[0])
            assert f"{name}(" in cells[-1], cells


_ARGUMENTS = {"int": "1", "addr": "arg0", "str": '"a"', "fmt": '"a"', "agg": "@", "any": "1", "ptr": "alloca(8)"}
_ARGUMENTS["object"] = _ARGUMENTS["ptr"]


@pytest.mark.parametrize("name", named("actions.md", *_REFUSED))
def test_functions_are_refused_as_the_page_says(name: str) -> None:
    known = FUNCTIONS[name]
    given = [_ARGUMENTS[each] for each in known.parameters[: known.least]]
    assert name in OF_THE_KERNEL
    assert tag_of(f"{name}({', '.join(given)});", _BEFORE) == "D_KERNEL"


def test_prototypes_have_as_many_arguments_as_the_table() -> None:
    for heading, cells in rows("actions.md"):
        if heading in (*_NOT_FUNCTIONS, *_REFUSED):
            continue
        (name,) = _WORD.findall(cells[0])
        inside = cells[0][cells[0].index("(") + 1 : cells[0].rindex(")")]
        optional = re.compile(r"\[[^\[\]]*\]")
        while optional.search(inside):
            inside = optional.sub("", inside)
        given = [word for word in re.findall(r"@|\w+|\.\.\.", inside) if word != "..."]
        assert len(given) == FUNCTIONS[name].least, cells[0]


# Variables.


def test_variables_names_all_variables_once() -> None:
    assert sorted(named("variables.md")) == sorted(BUILTINS)


def test_variables_are_refused_as_the_page_says() -> None:
    assert set(named("variables.md", "Variables of kernel programs only")) == set(VARIABLES_OF_THE_KERNEL)
    tags = dict.fromkeys(VARIABLES_OF_THE_KERNEL, "D_KERNEL")
    for name in BUILTINS:
        use = "uregs[R_RIP]" if name == "uregs" else name
        assert tag_of(f"trace({use});") == tags.get(name, ""), name


# Options.


def test_options_names_all_options_in_order() -> None:
    assert named("options.md") == list(ROWS)


def test_options_names_all_refused_options_with_the_reason() -> None:
    page = (PAGES / "options.md").read_text().partition("## Refused")[2]
    said: dict[str, str] = {}
    for reason, names in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page, re.M)[1:]:
        said.update(dict.fromkeys(names.split(", "), reason))
    assert said == REFUSED


def text_of(name: str) -> str:
    """A default value, as the page writes it."""
    shape, default = ROWS[name]
    match shape:
        case OptionShape.FLAG:
            return "on" if default else "off"
        case OptionShape.SIZE if default != "":
            number = int(default)
            power = max(n for n in range(4) if number % (1 << 10 * n) == 0)
            return f"{number >> 10 * power}{' kmg'[power]}".replace(" ", "")
        case OptionShape.TIME:
            return f"{int(default) // 10**9}s"
    return str(default)


def test_options_have_the_defaults_that_the_page_says() -> None:
    for _, cells in rows("options.md"):
        (name,) = _WORD.findall(cells[0])
        assert cells[1] == text_of(name), name


def test_options_have_an_effect_where_the_page_says_so() -> None:
    """An option has an effect if some code asks for its value."""
    asked: set[str] = set()
    for path in (ROOT / "src" / "gilk").rglob("*.py"):
        asked.update(re.findall(r"options\.(?:flag|number|text)\(\"(\w+)\"\)", path.read_text()))
    effects = {_WORD.findall(cells[0])[0]: cells[2] for _, cells in rows("options.md")}
    assert effects == {name: "yes" if name in asked else "none" for name in ROWS}


# Errors.


def all_tags() -> set[str]:
    enums: tuple[type[StrEnum], ...] = (tags.SyntaxTag, meaning_tags.Tag, PrintfTag, PidTag)
    return {str(each) for enum in enums for each in enum}


def test_errors_names_all_tags_once() -> None:
    found = [word for word in named("errors.md") if word.startswith("D_")]
    assert sorted(found) == sorted(all_tags())


def test_errors_describes_each() -> None:
    assert [cells for _, cells in rows("errors.md") if not cells[1]] == []


def test_errors_names_faults_by_their_numbers() -> None:
    faults = [cells for heading, cells in rows("errors.md") if heading == "Faults"]
    assert len(faults) > 3
    for name, number, _ in faults:
        assert FAULTS[Fault(int(number))] == name.strip("`")


# The tests themselves.


def test_the_pages_cover_all_roles_of_functions() -> None:
    """A new role would need a table of its own."""
    assert {known.role for known in FUNCTIONS.values()} == {Role.SUBROUTINE, Role.ACTION, Role.DEED, Role.AGGREGATING}


def test_negative_control_a_wrong_program_does_not_compile() -> None:
    assert tag_of("nosuch();") == "D_FUNC_UNDEF"
    assert tag_of("trace(1);") == ""

# SPDX-License-Identifier: LGPL-2.1-or-later
"""No file of the C code calls, directly or by others, a file that calls it; the definitions of functions tell the
files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "src" / "gilk" / "native"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
#: A function that other files can see: its head begins a line, and a body follows it.
DEFINED = re.compile(r"^(?!static\b|typedef\b|#|\s)[\w \*]*?\b(\w+)\([^;{}]*\)[\w\s()]*\{", re.MULTILINE)


def uses(folder: Path) -> dict[str, set[str]]:
    """The files of a folder, by name, each with those whose functions it names."""
    texts = {path.name: COMMENT.sub(" ", path.read_text()) for path in sorted(folder.glob("*.c"))}
    homes = {match[1]: name for name, text in texts.items() for match in DEFINED.finditer(text)}
    words = {name: set(re.findall(r"\w+", text)) for name, text in texts.items()}
    return {name: {homes[word] for word in words[name] & homes.keys()} - {name} for name in texts}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The files of the first cycle that is found; none if there is none."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        found = [] if name in done else next(filter(None, (visit(o, (*trail, name)) for o in sorted(graph[name]))), [])
        done.add(name)
        return found

    return next(filter(None, (visit(name, ()) for name in graph)), [])


@pytest.mark.parametrize("folder", ["ilk", "runtime"])
def test_no_call_cycle_among_c_files(folder: str) -> None:
    found = cycle(uses(NATIVE / folder))
    assert not found, " -> ".join(found)


def test_calls_between_c_functions_are_found() -> None:
    graph = uses(NATIVE / "ilk")
    assert {"validate.c", "place.c", "verify.c", "sites.c", "poke.c"} <= graph["apply.c"]
    assert graph["sites.c"] == set()


def test_a_planted_call_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "set.c").write_text("#include <x.h>\nstruct s *ilk_next(int from)\n{\n\treturn ilk_check(from);\n}\n")
    (tmp_path / "check.c").write_text(
        "static int own(void)\n{\n}\nvoid *\nilk_check(int at)\n{\n\treturn look(at);\n}\n"
    )
    (tmp_path / "look.c").write_text("/* ilk_check() */\nvoid *look(int at) { return at ? ilk_next(at) : 0; }\n")
    assert sorted(set(cycle(uses(tmp_path)))) == ["check.c", "look.c", "set.c"]
    (tmp_path / "look.c").write_text("/* ilk_next() */\nvoid *look(int at) { return 0; }\n")
    assert not cycle(uses(tmp_path))

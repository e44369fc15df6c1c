# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accesses of variables: every one that valgrind's lackey sees is seen by woven aspects, once, with its size and place;
and programs compute what they compute without, also where advice stands in place of each access.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gilk.errors import UsageError
from tests.behaviour.accessed_program import AccessedVariable, build, kept, made, seen_by_valgrind
from tests.behaviour.advised import COMPILERS

LEVELS = ("-O0", "-O1", "-O2", "-O3")
MANY = int(os.environ.get("GILK_ACCESS_SEEDS", "40"))


def declared(one: AccessedVariable) -> str:
    return one.type if "[" not in one.type else "struct six"  # of which nothing needs to be known


def observers(one: AccessedVariable) -> str:
    value = "&& value(v)" if one.is_whole else ""
    return "".join(
        f"{kind}({declared(one)} {one.name}) {value} && size(s) && offset(o) then {when} {{ add({table}, s, o, 1); }};\n"
        for kind, when, table in (
            ("readGlobal", "before", f"r_{one.name}"), ("writeGlobal", "after", f"w_{one.name}"),
        )
    )  # fmt: skip


def replacing(one: AccessedVariable) -> str:
    return (
        f"readGlobal({one.type} {one.name}) then inplace {{ return proceed(); }};\n"
        f"writeGlobal({one.type} {one.name}) && value(v) then inplace {{ proceed(v); }};\n"
    )


def tables(variables: tuple[AccessedVariable, ...]) -> str:
    return "".join(
        f"table {way}_{one.name} key(unsigned long, long) count;\n" for one in variables for way in "rw"
    )


def weave(program: Path, text: str, place: Path) -> tuple[list[str], dict[str, Counter[tuple[str, int, int]]]]:
    """The lines that the program prints, and what tables have of its accesses. Raises UsageError."""
    file = place / "accesses.aspect"
    file.write_text(text)
    command = [sys.executable, "-m", "gilk", "weave", file, "--json", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        assert '"error"' in done.stdout, (done.returncode, done.stdout, done.stderr)
        error = json.loads(done.stdout.splitlines()[-1])["error"]
        raise UsageError(error["slug"], error["message"])
    begun, *lines, last = done.stdout.splitlines()
    assert "woven" in json.loads(begun)
    summary = json.loads(last)
    assert all(one["restored"] is not False and not one["drops"] for one in summary["processes"])
    found: dict[str, Counter[tuple[str, int, int]]] = {}
    for name, table in summary["tables"].items():
        way, _, variable = name.partition("_")
        counts = found.setdefault(variable, Counter())
        for row in table["rows"]:
            size, offset = map(int, row["key"].split(", "))
            counts[way, size, offset] = row["value"]
    return lines, found


def differing(seed: int, compiler: str, options: tuple[str, ...], place: Path) -> tuple[list[str], ...]:
    """All that is not as it should be: of counts, of what the program prints, and of that with advice in place."""
    program = made(seed)
    path = build(place, program, compiler, *options)
    variables = kept(path, program.variables)
    expected = seen_by_valgrind(path, place, variables)
    alone = printed(path)
    observed = weave(path, tables(variables) + "".join(map(observers, variables)), place)
    counts = [
        f"{name}: lackey {dict(expected[name])}, woven {dict(observed[1].get(name, Counter()))}"
        for name in expected
        if expected[name] != observed[1].get(name, Counter())
    ]
    lines = [line for line in lines_without_addresses(observed[0]) if line not in alone]
    replaced = weave_in_place(path, variables, place)
    return counts, lines, [line for line in lines_without_addresses(replaced) if line not in alone]


def printed(path: Path) -> list[str]:
    done = subprocess.run([path], check=True, capture_output=True, text=True)
    return lines_without_addresses(done.stdout.splitlines())


def lines_without_addresses(lines: list[str]) -> list[str]:
    return [line.split(" ", 1)[1] if number == 0 else line for number, line in enumerate(lines)]


def weave_in_place(path: Path, variables: tuple[AccessedVariable, ...], place: Path) -> list[str]:
    """With advice in place of every access of the variables that are only accessed whole."""
    left = [one for one in variables if one.is_whole]
    while True:
        try:
            return weave(path, "".join(map(replacing, left)), place)[0]
        except UsageError as error:
            if error.slug != "split-access":
                raise
            (line,) = re.findall(r"line (\d+)", error.message)[:1]
            del left[(int(line) - 1) // 2]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_access_is_seen_as_lackey_sees_it(compiler: str, level: str, tmp_path: Path) -> None:
    seed = LEVELS.index(level) + 10 * COMPILERS.index(compiler)
    assert differing(seed, compiler, (level,), tmp_path) == ([], [], [])


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 100 + MANY))
def test_every_access_of_many_programs_is_seen(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    options = (chosen.choice(LEVELS), chosen.choice(("-fPIE", "-no-pie", "-mavx2", "-fno-inline", "-Os")))
    made_by = chosen.choice(COMPILERS)
    pie = ("-pie",) if "-no-pie" not in options else ("-fno-pie",)
    assert differing(seed, made_by, (*options, *pie), tmp_path) == ([], [], []), (made_by, options)

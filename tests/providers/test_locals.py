# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions at points inside of these; gdb is the oracle: it stops at each instruction."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.engines.dtrace.local_expressions import Why
from gilk.engines.dtrace.local_variables import Whereabouts
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.lang.types import Array, Record
from gilk.providers.pid import INSIDE
from gilk.providers.probe import ProbeSite
from gilk.splice.points import instructions
from gilk.targets import lines
from gilk.targets.base import Loaded
from tests.programs.local_gen import program
from tests.providers.sessions import traced

HERE = Path(__file__).parent
Values = dict[tuple[str, str], list[int]]  # by the offset of an instruction and the name of a variable
#: The reasons why gilk refuses what gdb shows: gdb does not look whether the function has stored anything yet, and asks
#: the caller's registers.
SHOWN_BY_GDB = {
    Why.NOT_STORED_YET, Why.NOT_DECLARED_YET, Why.ONLY_IN_CALLER, Why.IN_PIECES, Why.BELOW_STACK, Why.COMPUTED,
    Why.IN_VECTOR,
}  # fmt: skip

LEVELS = ("-O0", "-Og", "-O1", "-O2", "-O3", "-Os", "-O2 -fno-omit-frame-pointer", "-O2 -gdwarf-4")
#: The parameters in the three calls.
GIVEN = {
    "by": [0, 1, 2], "letter": [-1, 0, 1], "plain": [0, 7, 14], "sixth": [11, 11, 11], "seventh": [12, 13, 14],
    "eighth": [13, 12, 11], "wide": [-1, -2, -3],
}  # fmt: skip


class File:
    """A program that does not run, for questions about its code."""

    def __init__(self, path: Path) -> None:
        self._image = load(path)
        self._analysis = Analysis(self._image)

    def image(self, path: Path) -> Image:
        return self._image

    def analysis(self, loaded: Loaded) -> Analysis:
        return self._analysis


def frame_base(path: Path) -> str:
    """The expression from which the places in the frame of ``work`` count."""
    dumped = subprocess.run(["readelf", "--debug-dump=info", path], capture_output=True, text=True, check=True).stdout
    (entry,) = [each for each in re.split(r"\n <1><", dumped) if re.search(r"DW_AT_name +: (\(.*\): )?work\n", each)]
    found = re.search(r"DW_AT_frame_base .*\((DW_OP_\w+)", entry)
    assert found is not None
    return found[1]


def framed(said: str, base: str) -> set[str]:
    """The instructions at which gdb finds the frame: it takes the register for the frame's base, whether the function
    has set it or not."""
    rows = re.findall(r"^frame ([0-9a-f]+) (-?\d+) (-?\d+)$", said, re.MULTILINE)
    if base == "DW_OP_reg6":
        return {at for at, _, above in rows if above == "16"}
    usual, _ = Counter(above for _, above, _ in rows).most_common(1)[0]
    return {at for at, above, _ in rows if above == usual or base == "DW_OP_call_frame_cfa"} - {"0"}


def by_gdb(path: Path, at: list[str]) -> Values:
    """The values that gdb shows at the instructions ``at``, or at all of them."""
    words = ["gdb", "-nx", "-batch", "-x", HERE / "gdb_locals.py", path]
    environment = {**os.environ, "AT": " ".join(at)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
    found: Values = defaultdict(list)
    right = framed(done.stdout, frame_base(path))
    for offset, name, value in re.findall(r"^at ([0-9a-f]+) (\S+) (-?\d+)$", done.stdout, re.MULTILINE):
        if offset in right:
            found[offset, name].append(int(value))
    assert found, done.stderr
    return found


class Work:
    """Function ``work`` of a program: its instructions, and the variables that gilk has there."""

    def __init__(self, path: Path) -> None:
        self._code, self._loaded, self._image = File(path), Loaded(path, 0, 0, 0, True), load(path)
        (self._span,) = [each for each in self._image.spans if each.name == "work"]
        analysis = self._code.analysis(self._loaded)
        found = instructions(self._image.name, analysis, analysis.function(self._span))
        self._points = {f"{point.address - self._span.start:x}": point for point in found}

    def some(self, count: int) -> list[str]:
        """The offsets of so many instructions, evenly apart."""
        known = list(self._points)
        return known[:: max(len(known) // count, 1)]

    def _place(self, offset: str) -> Whereabouts:
        site = ProbeSite(self._loaded, self._span.start, self._points[offset], INSIDE)
        return Whereabouts(self._code, site)  # type: ignore[arg-type]

    def is_being_stored(self, offset: str, shown: str) -> bool:
        """Whether the line of the instruction declares the variable: until it is stored, its place has what happened to
        be there, which in the first call differs from one run to the next."""
        place, name = self._place(offset), re.split(r"[.[]", shown)[0]
        assert place.scope is not None
        line = lines.line_of(self._loaded.path, self._points[offset].address)
        return line is not None and (name, line.line) in {(each.name, each.line) for each in place.scope.variables}

    def why(self, offset: str, shown: str) -> Why | None:
        """The reason why gilk does not have the variable there; None if it has it."""
        found = self._place(offset).local("", re.split(r"[.[]", shown)[0])
        whole = found.placed is not None and found.placed.address is None
        return Why.IN_PIECES if whole and isinstance(found.type, Array | Record) else found.why


def clause(at: str, offset: str, names: list[str]) -> str:
    shown = " ".join(f"{offset} {name} %d;" for name in names)
    values = "".join(f", (int)local`{name}" for name in names)
    return f'pid$target:a.out:work:{at} {{ printf("{shown}\\n"{values}); }}\n'


def check(path: Path, at: list[str]) -> tuple[int, int]:
    """Compare the variables at some instructions; returns how many gdb knows, and how many gilk has."""
    work, known, wanted = Work(path), by_gdb(path, at), defaultdict[str, list[str]](list)
    for offset, name in known:
        why = work.why(offset, name)
        assert why is None or why in SHOWN_BY_GDB, (offset, name)
        wanted[offset] += [name] if why is None else []
    given = [name for name in GIVEN if work.why("0", name) is None]
    text = clause("entry", "entry", given)
    done = traced(text + "".join(clause(offset, offset, names) for offset, names in wanted.items() if names), path)
    assert (done.errors, done.restored) == ("", True)
    for probe, reason in done.refused.items():
        assert "local`" not in reason, (probe, reason)
        wanted.pop(probe.rpartition(":")[2])  # there is no room for a splice
    found: Values = defaultdict(list)
    for offset, name, value in re.findall(r"(\w+) (\S+) (-?\d+);", "\n".join(done.lines)):
        found[offset, name].append(int(value))
    assert {name: found["entry", name] for name in given} == {name: GIVEN[name] for name in given}
    there = {(offset, name) for offset, names in wanted.items() for name in names}
    for offset, name in there:
        if work.is_being_stored(offset, name) and found[offset, name]:
            found[offset, name][0] = known[offset, name][0]
    assert [(key, found[key], known[key]) for key in sorted(there) if found[key] != known[key]] == []
    return len(known), len(there)


def made(compiler: str, options: str, seed: int, place: Path) -> Path:
    (place / "p.c").write_text(program(seed))
    words = [compiler, "-g", *options.split(), "-o", "p", "p.c"]
    subprocess.run(words, cwd=place, check=True, capture_output=True)
    return place / "p"


@pytest.mark.parametrize(("compiler", "level", "seed"), [("gcc", "-O2", 1), ("clang", "-O0", 2)])
def test_variables_have_the_values_that_gdb_shows(compiler: str, level: str, seed: int, tmp_path: Path) -> None:
    path = made(compiler, level, seed, tmp_path)
    known, had = check(path, Work(path).some(12))
    assert had > known * 0.5, (had, known)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_variables_have_the_values_that_gdb_shows_at_all_instructions(
    compiler: str, level: str, seed: int, tmp_path: Path
) -> None:
    known, had = check(made(compiler, level, seed, tmp_path), [])
    assert had > known * 0.5, (had, known)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions at points inside of these; gdb is the oracle: it stops at each instruction."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
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
from gilk.targets.base import Loaded
from tests.programs.local_gen import program
from tests.providers.sessions import traced
from tests.seldom import seldom

HERE = Path(__file__).parent
Values = dict[tuple[str, str], list[int]]  # by the offset of an instruction and the name of a variable
#: The reasons why gilk refuses what gdb shows: gdb does not look whether the function has stored anything yet, and asks
#: the caller's registers.
SHOWN_BY_GDB = {
    Why.NOT_STORED_YET, Why.NOT_DECLARED_YET, Why.ONLY_IN_CALLER, Why.IN_PIECES, Why.BELOW_STACK, Why.COMPUTED,
    Why.IN_VECTOR,
}  # fmt: skip

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


def by_gdb(path: Path) -> Values:
    words = ["gdb", "-nx", "-batch", "-x", HERE / "gdb_locals.py", path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    found: Values = defaultdict(list)
    right = framed(done.stdout, frame_base(path))
    for offset, name, value in re.findall(r"^at ([0-9a-f]+) (\S+) (-?\d+)$", done.stdout, re.MULTILINE):
        if offset in right:
            found[offset, name].append(int(value))
    assert found, done.stderr
    return found


def asked(path: Path, known: Values) -> Iterator[tuple[str, str, Why | None]]:
    """The variables that gdb knows, with the reasons why gilk does not have them; None for those that it has."""
    code, loaded = File(path), Loaded(path, 0, 0, 0, True)
    image = load(path)
    (span,) = [each for each in image.spans if each.name == "work"]
    for point in instructions(image.name, code.analysis(loaded), code.analysis(loaded).function(span)):
        place = Whereabouts(code, ProbeSite(loaded, span.start, point, INSIDE))  # type: ignore[arg-type]
        for offset, shown in known:
            if offset == f"{point.address - span.start:x}":
                found = place.local("", re.split(r"[.[]", shown)[0])
                whole = found.placed is not None and found.placed.address is None
                lost = Why.IN_PIECES if whole and isinstance(found.type, Array | Record) else found.why
                yield offset, shown, lost


def check(path: Path) -> tuple[int, int]:
    """Compare all variables at all instructions; returns how many gdb knows, and how many gilk has."""
    known, wanted = by_gdb(path), defaultdict(list)
    for offset, name, why in asked(path, known):
        if why is None:
            wanted[offset].append(name)
        else:
            assert why in SHOWN_BY_GDB, (offset, name)
    parameters = "".join(f'printf("0 {name} %d;\\n", local`{name}); ' for name in GIVEN)
    text = f"pid$target:a.out:work:entry {{ {parameters} }}\n" + "\n".join(
        f'pid$target:a.out:work:{offset} {{ printf("{" ".join(f"{offset} {name} %d;" for name in names)}\\n", '
        f"{', '.join(f'(int)local`{name}' for name in names)}); }}"
        for offset, names in wanted.items()
    )
    done = traced(text, path)
    assert (done.errors, done.restored) == ("", True)
    for probe, why in done.refused.items():
        assert "local`" not in why, (probe, why)
        wanted.pop(probe.rpartition(":")[2])  # there is no room for a splice
    found: Values = defaultdict(list)
    for offset, name, value in re.findall(r"([0-9a-f]+) (\S+) (-?\d+);", "\n".join(done.lines)):
        found[offset, name].append(int(value))
    assert {name: found["0", name] for name in GIVEN} == GIVEN
    there = {(offset, name) for offset, names in wanted.items() for name in names}
    assert [(key, found[key], known[key]) for key in sorted(there) if found[key] != known[key]] == []
    return len(known), len(there)


@pytest.mark.parametrize(
    ("compiler", "level", "seed"),
    seldom(
        [
            ("gcc", "-O2", 1), ("clang", "-O0", 2),
            *((cc, level, seed) for seed in range(12) for cc in ("gcc", "clang") for level in ("-O0", "-Og", "-O1", "-O2", "-O3", "-Os")),
        ],
        2,
    ),
)  # fmt: skip
def test_variables_have_the_values_that_gdb_shows(compiler: str, level: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(program(seed))
    subprocess.run([compiler, "-g", level, "-o", "p", "p.c"], cwd=tmp_path, check=True, capture_output=True)
    known, had = check(tmp_path / "p")
    assert had > known * 0.5, (had, known)

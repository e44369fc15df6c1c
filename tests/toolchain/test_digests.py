# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cache's digest of compiled code covers all files that the compiler reads, by the compiler's own list."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.targets.kernel import driver_build
from gilk.toolchain import dprogram, runtime
from gilk.toolchain.compilers import NATIVE, compiler, flags

CLAUSES = '#include "runtime/d/deeds.h"\n#include <gilk.h>\n'


def read(*arguments: object) -> set[Path]:
    """Files below native/ that the compiler reads."""
    command = [*compiler(), *flags(), "-I", NATIVE, "-I", NATIVE / "include", "-M", *arguments]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = {Path(name).resolve() for name in listed.replace("\\\n", " ").split()[1:]}
    return {path for path in files if NATIVE in path.parents}


def sources() -> list[Path]:
    return [*sorted((NATIVE / "runtime").glob("*.c")), NATIVE / "host" / "process.S"]


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
def test_the_digest_covers_all_files_of_the_runtime(source: Path) -> None:
    needed = read(source)
    assert len(needed) > 1 and needed <= set(runtime.read_files())


def test_the_digest_covers_all_files_of_clauses(tmp_path: Path) -> None:
    source = tmp_path / "clauses.c"
    source.write_text(CLAUSES)
    needed = read(*dprogram.program_flags(), source)
    assert len(needed) > 20 and needed <= set(dprogram.read_files())


def test_the_digest_covers_all_files_of_the_driver() -> None:
    """The files are found by the names in its sources, without kbuild."""
    given = {name for name, _ in driver_build._sources()}
    texts = {name: path.read_text() for name, path in driver_build._sources() if name.endswith((".c", ".h", ".S"))}
    assert "abi/gilk_regs.h" in given and "ilk/Kbuild" in given
    for name, text in texts.items():
        for included in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            assert str((Path("/") / name).parent.joinpath(included).resolve())[1:] in given, (name, included)

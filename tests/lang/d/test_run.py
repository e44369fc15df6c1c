# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that run: their output and their errors. Next to ``tst.NAME.d``, ``.out`` has its expected output.

Other files exist where needed: ``.err`` for errors, ``.args`` for arguments, ``.status`` for that of exit().
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lang.d.programs import HERE
from tests.lang.d.sessions import run

PROGRAMS = sorted(HERE.glob("run/tst.*.d"))


def beside(path: Path, suffix: str) -> str:
    found = path.with_suffix(suffix)
    return found.read_text() if found.exists() else ""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name[4:-2])
def test_a_program_prints_its_expected_output_and_errors(path: Path) -> None:
    assert path.read_text().startswith("/* ")
    ran = run(path)
    assert ran.output.decode() == path.with_suffix(".out").read_text()
    assert ran.errors == beside(path, ".err")
    assert ran.status == int(beside(path, ".status") or 0)

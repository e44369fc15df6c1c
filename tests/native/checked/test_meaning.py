# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs mean the same as checked code for a kernel as they do in C for processes, or are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.errors import UsageError
from tests.lang.d.sessions import run
from tests.lang.d.test_run import PROGRAMS, beside
from tests.native.checked.engine import CheckedConsumer

LIMITS = (Path(__file__).parents[3] / "docs" / "limits.md").read_text()
#: These show when ERROR fires: in a kernel, when the consumer reads the fault.
OTHERWISE = frozenset(("error_at_once",))
#: The least number of accepted programs, which no change may lower.
LEAST = 114


def name(path: Path) -> str:
    return path.name[4:-2]


@pytest.mark.parametrize("path", [path for path in PROGRAMS if name(path) not in OTHERWISE], ids=name)
def test_a_program_prints_the_same_in_checked_code_or_is_refused(path: Path) -> None:
    try:
        ran = run(path, CheckedConsumer)
    except UsageError as error:
        what = error.message.partition(": ")[2]
        assert error.slug == "not-in-kernel" and what in LIMITS
        return
    assert ran.output.decode() == path.with_suffix(".out").read_text()
    assert ran.errors == beside(path, ".err")
    assert ran.status == int(beside(path, ".status") or 0)


def test_most_programs_are_accepted_as_checked_code() -> None:
    def is_printed(path: Path) -> bool:
        try:
            run(path, CheckedConsumer)
        except UsageError:
            return False
        return True

    assert sum(map(is_printed, PROGRAMS)) >= LEAST

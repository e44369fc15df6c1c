# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a process does to itself and to others like it: as often as the program does it, which calls.c tells."""

from __future__ import annotations

import pytest

from tests.programs.build import build
from tests.providers.sessions import traced

_PROGRAM = """
    proc:::create, proc:::lwp-create, proc:::exit, proc:::lwp-exit { @[strjoin(probename, "")] = count(); }
    proc:::exit { @s["statuses"] = sum(arg0); }
    proc:::create /arg0 > 1 && pid == $target/ { @c["a child"] = count(); }
    proc:::exit /pid != $target/ { @e["its end"] = count(); }"""
_EXECUTING = """
    proc:::exec { @[copyinstr(arg0)] = count(); }
    proc:::exec-failure { @f["failed"] = sum(arg0); }"""


def test_threads_and_children() -> None:
    """Four threads, and a child that ends before the program does."""
    assert traced(_PROGRAM, build("calls"), "10").numbers() == {
        "create": 1, "lwp-create": 4, "lwp-exit": 4, "exit": 2, "statuses": 2, "a child": 1, "its end": 1
    }  # fmt: skip


@pytest.mark.stress
def test_programs_that_are_executed() -> None:
    done = traced(_EXECUTING, "sh", "-c", "/nonexistent; /bin/true; exit 0")
    assert done.numbers() == {"/nonexistent": 1, "/bin/true": 1, "failed": 2}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two oracles that share no code agree on every instruction of a program."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.oracle import step_counts
from tests.oracle.emulated import EmulationError, counts, every_count
from tests.programs.build import build
from tests.seldom import seldom

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")


def instructions(program: Path) -> list[int]:
    """The link-time addresses of all instructions in .text, by objdump, without those repeated by a prefix."""
    text = subprocess.run(["objdump", "-dw", "-j", ".text", program], capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if not re.search(r"\trep[nz]* (?!ret)", line)]
    return [int(line.split(":")[0], 16) for line in lines if re.match(r" +[0-9a-f]+:\t", line)]


@pytest.mark.parametrize(
    ("name", "amount"),
    seldom([("shortblocks", "3"), ("setjmp", "1"), ("work", "1"), ("jumptable", "2"), ("exceptions", "0")], 2),
)
def test_the_stepper_and_valgrind_count_the_same(name: str, amount: str) -> None:
    program = build(name)
    where = {name: instructions(program)}
    stepped = step_counts([program, amount], where, start="entry")
    assert counts([program, amount], where, timeout=250) == stepped
    assert sum(stepped.values()) > 30


def test_hot_functions_of_eight_threads_are_counted() -> None:
    program = build("threads")
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    hot = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" hot"))
    assert counts([program, "200"], {"threads": [hot]}, timeout=250) == {("threads", hot): 200 * 50 * 2}


def test_a_program_that_fails_under_valgrind_is_an_error() -> None:
    with pytest.raises(EmulationError, match="ended with 1"):
        every_count(["false"], timeout=250)

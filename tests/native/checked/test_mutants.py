# SPDX-License-Identifier: LGPL-2.1-or-later
"""Mutants of checked code that the checker accepts run in a process here, where nothing lies around their memory."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from gilk.lang.to_kernel.helpers import FIRST_DEED, HELPERS
from gilk.targets.kernel.d_messages import CodeVerdict
from tests.native.checked.corpus import codes
from tests.native.checked.library import TIME
from tests.native.host import build

SOURCE = Path(__file__).with_name("mutants.c")
FEW, MANY = 20_000, 10_000_000
FIRST = HELPERS[FIRST_DEED].number
DEEDS = sum(1 << each.number - FIRST for each in HELPERS.values() if each.number >= FIRST)
#: Verdicts that are overlooked to show what becomes of such code. Without a form, code cannot be linked.
SHOWN = (
    CodeVerdict.BAD_FRAME, CodeVerdict.BAD_BRANCH, CodeVerdict.BAD_TARGET, CodeVerdict.BAD_CALL, CodeVerdict.BAD_END,
    CodeVerdict.BAD_DEED,
)  # fmt: skip


@pytest.fixture(scope="module")
def program() -> Path:
    return build([SOURCE], "mutants", "-O2", "-Wall", "-Wextra")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs as mutants.c reads them: sizes, entries of groups, and code, in words of four bytes."""
    path = tmp_path_factory.mktemp("mutants") / "corpus"
    body = struct.pack("<I", len(codes()))
    for each in codes():
        body += struct.pack("<III", len(each.code), each.frame, len(each.entries))
        body += struct.pack(f"<{len(each.entries)}I", *each.entries)
        body += each.code + bytes(-len(each.code) % 4)
    path.write_bytes(body)
    return path


def run(program: Path, corpus: Path, seed: int, count: int, overlooked: int = 0) -> subprocess.CompletedProcess[str]:
    words = [program, corpus, *map(str, (seed, count, TIME, overlooked))]
    return subprocess.run(words, capture_output=True, text=True)


def check(done: subprocess.CompletedProcess[str], count: int) -> None:
    assert done.returncode == 0, done.stdout
    accepted, calling, deeds = done.stdout.split()
    assert int(accepted) > count // 50 and int(calling) > count // 100 and int(deeds, 16) == DEEDS


def test_no_accepted_mutant_leaves_its_memory(program: Path, corpus: Path) -> None:
    check(run(program, corpus, 1, FEW), FEW)


@pytest.mark.stress
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2, 12))
def test_none_of_many_accepted_mutants_leaves_its_memory(program: Path, corpus: Path, seed: int) -> None:
    check(run(program, corpus, seed, MANY), MANY)


@pytest.mark.parametrize("verdict", SHOWN, ids=lambda verdict: verdict.name.lower())
def test_a_checker_that_overlooks_something_is_found_out(program: Path, corpus: Path, verdict: CodeVerdict) -> None:
    done = run(program, corpus, 1, FEW, verdict)
    assert done.returncode == 1 and done.stdout.startswith("mutant "), (done.returncode, done.stdout, done.stderr)

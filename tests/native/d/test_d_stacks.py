# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks equal those that libgcc finds, at each instruction that code runs; and bad tables or stacks do no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gilk.toolchain.compilers import NATIVE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
#: Here tables do not say how to get on: a few instructions of the dynamic loader, of longjmp() and of stubs.
_UNKNOWN = 0.01


def library(directory: Path, *flags: str) -> Path:
    """The library that is made of steps.c and stepped.cpp."""
    common = ("-O2", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-function", *flags)
    made = directory / "steps.o", directory / "stepped.o"
    subprocess.run(["gcc", *common, "-I", NATIVE, "-c", "-o", made[0], HERE / "steps.c"], check=True)
    subprocess.run(["g++", *common, "-c", "-o", made[1], HERE / "stepped.cpp"], check=True)
    output = directory / "steps.so"
    subprocess.run(["g++", "-shared", "-Wl,-z,lazy", "-o", output, *made], check=True)
    return output


def steps(*arguments: object) -> str:
    """The output of tests/native/d/steps.py."""
    command = [sys.executable, "-m", "tests.native.d.steps", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def check(path: Path) -> None:
    found = json.loads(steps(path))
    counts = {name: int(str(found[name])) for name in ("all", "same", "wrong", "unknown")}
    assert counts["wrong"] == 0, json.dumps(found, indent=1)
    assert counts["all"] > 10000
    assert counts["unknown"] < _UNKNOWN * counts["all"]
    assert counts["same"] == counts["all"] - counts["unknown"]


def test_stacks_are_libgccs_at_each_instruction(tmp_path: Path) -> None:
    """The code has prologues, ends, recursion, alloca(), realigned frames, PLT, callbacks, signals, other stacks,
    exceptions."""
    check(library(tmp_path, "-fomit-frame-pointer"))


@pytest.mark.stress
@pytest.mark.parametrize(
    "flags",
    [
        *(("-fno-omit-frame-pointer",), ("-O0",), ("-Os", "-fomit-frame-pointer"), ("-O3", "-march=native")),
        *(("-fcf-protection=full",), ("-fno-plt",), ("-mno-red-zone",)),
    ],
    ids=" ".join,
)
def test_stacks_are_libgccs_however_code_is_compiled(flags: tuple[str, ...], tmp_path: Path) -> None:
    check(library(tmp_path, *flags))


@pytest.mark.parametrize("rounds", [2000, pytest.param(200_000, marks=pytest.mark.stress)])
def test_no_stack_and_no_table_does_harm(rounds: int, tmp_path: Path) -> None:
    """Stacks have random contents, next to unmapped pages: the walk ends, and nothing faults."""
    frames = int(steps(library(tmp_path), 20260101, rounds))
    assert rounds < frames < 200 * rounds

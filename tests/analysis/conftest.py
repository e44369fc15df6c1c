# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images to analyse: some that every Debian machine has, and small programs compiled here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Function
from gilk.image.elf import load

BASH = Path("/bin/bash")
LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")

Compile = Callable[..., Analysis]


@pytest.fixture(scope="session")
def bash() -> Analysis:
    return Analysis(load(BASH))


@pytest.fixture(scope="session")
def libc() -> Analysis:
    return Analysis(load(LIBC))


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """compiled(source, *flags, language="c", name="program"): build with the system's compiler and analyse."""

    def build(source: str, *flags: str, language: str = "c", name: str = "program") -> Analysis:
        program = tmp_path / name
        compiler = "c++" if language == "c++" else "cc"
        command = [compiler, "-x", language, "-", "-o", str(program), *flags]
        subprocess.run(command, input=source.encode(), check=True)
        return Analysis(load(program))

    return build


def function(analysis: Analysis, name: str) -> Function:
    """The function of that name; one test's source has one."""
    found = [span for span in analysis.image.spans if name in (span.name, *span.aliases)]
    assert len(found) == 1, f"{name}: {found}"
    return analysis.function(found[0])

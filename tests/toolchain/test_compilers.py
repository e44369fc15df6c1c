# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recognising the compiler, and reporting a program that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gilk.errors import CompileError
from gilk.toolchain import compilers


@pytest.mark.parametrize("named", ["/no/such/cc", "no-such-cc -m64", '"', "   ", "/tmp"])
def test_a_named_compiler_that_cannot_be_run_is_an_error(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", named)
    with pytest.raises(CompileError) as raised:
        compilers.compiler.__wrapped__()
    assert raised.value.slug == "no-compiler" and repr(named) in raised.value.message


def test_a_named_compiler_is_used_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -m64")
    assert compilers.compiler.__wrapped__() == ("gcc", "-m64")


def test_the_first_executable_compiler_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    for folder, mode in (("none", 0o644), ("one", 0o755), ("two", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cc").write_text("#!/bin/sh\n")
        (tmp_path / folder / "cc").chmod(mode)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / folder) for folder in ("none", "one", "two")))
    assert compilers.compiler.__wrapped__() == (str(tmp_path / "one" / "cc"),)


@pytest.mark.parametrize(("name", "says", "expected"), [
    ("x86_64-linux-gnu-gcc-12", "clang version 14", True),  # not asked
    ("clang-14", "gcc version 12", False),
    ("ccache", "gcc version 12.2.0", True),
    ("ccache", "clang version 14", False),
])  # fmt: skip
def test_gcc_is_recognised_by_name_or_by_its_version_text(
    name: str, says: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, link = tmp_path / name, tmp_path / "cc"
    program.write_text(f"#!/bin/sh\necho {says} >&2\n")
    program.chmod(0o755)
    link.symlink_to(program)
    monkeypatch.setattr(compilers, "compiler", lambda: (str(link),))
    assert compilers._is_gcc.__wrapped__() is expected

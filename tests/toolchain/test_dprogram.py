# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that are compiled in the background."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from gilk.errors import CompileError
from gilk.toolchain import dprogram
from gilk.toolchain.dprogram import compiling
from tests.behaviour.harness import children

PROGRAM = "int d_group_0(int x) { return x + %d; }"


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_compiled_program_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    with compiling(PROGRAM % 1) as finish:
        first = finish()
    monkeypatch.setattr(dprogram.compilers, "compiling", None)
    with compiling(PROGRAM % 1) as finish:
        assert finish() == first


def test_waiting_for_the_compiler_raises_its_error() -> None:
    with compiling("this is no C") as finish, pytest.raises(CompileError) as raised:
        finish()
    assert raised.value.slug == "does-not-compile" and "error" in raised.value.message


def test_a_compiler_that_is_not_waited_for_is_killed(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler and its files are gone, whatever ended the wait."""
    slow = own_places / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 100\n")
    slow.chmod(0o755)
    monkeypatch.setattr(dprogram.compilers, "compiler", lambda: (str(slow),))
    before = children(os.getpid())  # of other tests
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), compiling(PROGRAM % 2):
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 50
    assert set(children(os.getpid())) <= set(before)
    assert sorted(path.name for path in own_places.iterdir()) in (["cache", "slow"], ["slow"])

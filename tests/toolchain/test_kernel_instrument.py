# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernel instruments can be built wherever files of the user, of gilk and temporary ones lie, though kbuild takes no
spaces."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gilk import private
from gilk.errors import CompileError
from gilk.lab import kernels
from gilk.toolchain import kernel_instrument
from gilk.toolchain.kernel_instrument import compile_for_kernel, run_kbuild

INSTRUMENT = """
#include <gilk.h>
#include "amount.h"
void seen(unsigned int iid) { static int n; n += AMOUNT; }
"""


@pytest.fixture
def spaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for gilk's own headers, temporary files and the instrument."""
    place = tmp_path / "a place: of mine"
    for part in ("abi", "include"):
        shutil.copytree(kernel_instrument.NATIVE / part, place / part)
    monkeypatch.setattr(kernel_instrument, "NATIVE", place)
    monkeypatch.setenv("TMPDIR", str(place))
    assert private.temporary() == place
    (place / "amount.h").write_text("#define AMOUNT 2\n")
    return place


def test_kbuild_gets_no_path_with_spaces(spaced: Path) -> None:
    source = spaced / "my instrument.c"
    source.write_text(INSTRUMENT)
    made = compile_for_kernel(source, "seen", "gilk_spaced", kernels.find().headers)
    assert made.content[:4] == b"\x7fELF" and made.plain_size


def test_messages_name_the_file_as_the_user_does(spaced: Path) -> None:
    source = spaced / "my instrument.c"
    source.write_text(INSTRUMENT.replace("n += AMOUNT", "n += AMUONT"))
    with pytest.raises(CompileError) as raised:
        compile_for_kernel(source, "seen", "gilk_spaced", kernels.find().headers)
    assert raised.value.slug == "does-not-compile"
    assert f"{source}:4:" in raised.value.message


def test_headers_in_a_path_with_spaces_are_refused(spaced: Path) -> None:
    with pytest.raises(CompileError) as raised:
        run_kbuild(spaced, Path("/tmp"))
    assert raised.value.slug == "kbuild-path" and str(spaced) in raised.value.message

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that freopen() names: later output is appended there."""

from __future__ import annotations

import os
from pathlib import Path

from gilk.engines.dtrace.outlet import Pages


def pages(folder: Path) -> tuple[Pages, Path, bytes]:
    path = folder / "named"
    return Pages(folder / "first"), path, os.fsencode(path)


def test_output_is_appended_to_the_file_that_freopen_names(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    for text in (b"a\n", b"b\n"):
        outlet.freopen(name)
        outlet.write(text)
        outlet.freopen(b"")
        outlet.write(b"between\n")
    assert path.read_bytes() == b"a\nb\n"
    assert (tmp_path / "first").read_bytes() == b"between\n" * 2


def test_ftruncate_empties_the_file_that_freopen_names(tmp_path: Path) -> None:
    outlet, path, name = pages(tmp_path)
    outlet.freopen(name)
    outlet.write(b"gone")
    outlet.ftruncate()
    outlet.write(b"kept")
    assert path.read_bytes() == b"kept"

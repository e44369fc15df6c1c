# SPDX-License-Identifier: LGPL-2.1-or-later
"""Output files are tried before anything is begun, under names that no script waits for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk.errors import StoreError
from gilk.trace.destination import check
from gilk.trace.table_file import partial_path


def test_trying_an_output_does_not_create_the_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts wait for FILE.partial, which says that all probes are in."""
    opened = list[Path]()
    real = os.open

    def noted(path: Path, *more: int, **others: int) -> int:
        opened.append(Path(path))
        return real(path, *more, **others)

    monkeypatch.setattr("gilk.trace.destination.os.open", noted)
    check(tmp_path / "out")
    (tried,) = opened
    assert tried != partial_path(tmp_path / "out") and len(tried.name) == len(partial_path(tmp_path / "out").name)
    assert list(tmp_path.iterdir()) == []


def test_an_output_name_too_long_for_its_partial_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="too long"):
        check(tmp_path / ("x" * 250))
    check(tmp_path / ("x" * 247))

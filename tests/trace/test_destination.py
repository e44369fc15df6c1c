# SPDX-License-Identifier: LGPL-2.1-or-later
"""Output files are tried before anything is begun, under names that no script waits for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk.errors import StoreError
from gilk.trace.destination import check
from gilk.trace.table_file import partial_path


def test_what_is_tried_is_not_taken_for_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_name_that_is_too_long_only_while_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="too long"):
        check(tmp_path / ("x" * 250))
    check(tmp_path / ("x" * 247))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Knowledge of functions passes from one session to the next, but wrong knowledge does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gilk.cache.arrays import store_arrays
from gilk.image.elf import load
from gilk.targets import learnt
from gilk.targets.image import analyse
from tests.programs.build import build


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


def test_findings_about_functions_are_stored_and_merged() -> None:
    image = load(build("shortblocks"))
    first, second = analyse(image), analyse(image)
    spans = image.spans
    for analysis, some in ((first, spans[: len(spans) // 2]), (second, spans[len(spans) // 2 :])):
        for span in some:
            analysis.liveness(analysis.function(span))
        learnt.store(analysis)
    assert learnt.load(image) == {**second.known, **first.known}
    assert analyse(image).known == learnt.load(image)


def test_findings_are_not_used_for_other_code() -> None:
    image = load(build("shortblocks"))
    analysis = analyse(image)
    analysis.liveness(analysis.function(image.spans[0]))
    learnt.store(analysis)
    segments = tuple(replace(s, data=s.data[:-1] + b"\x90") if s.executable else s for s in image.segments)
    assert learnt.load(image)
    assert not learnt.load(replace(image, segments=segments))


@pytest.mark.parametrize("columns", [{}, {"start": 3, "gen": 3, "keeps": 2, "cycle": 3}, {"start": 1}])
def test_malformed_findings_are_ignored(columns: dict[str, int]) -> None:
    image = load(build("shortblocks"))
    store_arrays(learnt._key(image), {name: np.zeros(length, np.int64) for name, length in columns.items()})
    assert learnt.load(image) == {}

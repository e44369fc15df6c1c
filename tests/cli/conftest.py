# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace`` of this checkout as a command, for the tests of its options."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk

Dtrace = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dtrace(gilk_on_path: dict[str, str], tmp_path: Path) -> Dtrace:
    """Runs `gilk dtrace` with the given words in ``tmp_path``; named arguments are variables of its environment."""

    def run(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
        return run_gilk("dtrace", *map(str, words), cwd=tmp_path, env={**gilk_on_path, **more}, timeout=300)

    return run

# SPDX-License-Identifier: LGPL-2.1-or-later
"""What every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gilk.lab.kernels import store

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def gilk_on_path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `gilk` is this checkout, whether or not it is installed, with a cache of its own."""
    directory = tmp_path_factory.mktemp("bin")
    command = directory / "gilk"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gilk "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{directory}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "GILK_CACHE": str(tmp_path_factory.mktemp("cache")),
        "GILK_KERNELS": str(store()),  # 85 MB need not be fetched again
        "NO_COLOR": "1",
    }

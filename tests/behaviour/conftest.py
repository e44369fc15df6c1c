# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every test of behaviour analyses afresh once, and has its plugin."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fake.both import Launched, launched
from tests.programs.build import build


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache left by another version must not stand in for what this one finds."""
    kept = os.environ.get("GILK_CACHE")
    os.environ["GILK_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["GILK_CACHE"]
    if kept is not None:
        os.environ["GILK_CACHE"] = kept


@pytest.fixture(scope="session", autouse=True)
def plugin() -> None:
    """dlopen looks for it beside itself."""
    build("plugin")


@pytest.fixture(params=["process", "fake"])
def target(request: pytest.FixtureRequest) -> Iterator[Launched]:
    """A program that has not begun: in a process, and in memory (tests/fake)."""
    with launched(request.param) as one:
        yield one

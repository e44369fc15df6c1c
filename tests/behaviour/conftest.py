# SPDX-License-Identifier: LGPL-2.1-or-later
"""Behaviour tests have the cache of this run of the tests, the plugin, and a spare keeper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.targets.keepers import spawned
from tests.fake.both import Launched, launched
from tests.programs.build import build


@pytest.fixture(scope="session", autouse=True)
def own_cache(run_cache: Path) -> Iterator[None]:
    """Use the cache of this run, and not the user's."""
    kept = os.environ.get("GILK_CACHE")
    os.environ["GILK_CACHE"] = str(run_cache)
    yield
    del os.environ["GILK_CACHE"]
    if kept is not None:
        os.environ["GILK_CACHE"] = kept


@pytest.fixture(scope="session", autouse=True)
def plugin() -> None:
    """Build the plugin, which programs open with dlopen beside themselves."""
    build("plugin")


@pytest.fixture(scope="session", autouse=True)
def spare_keeper() -> Iterator[None]:
    """Hold a keeper that does nothing. So this process always has one, and those of attached processes are forked: the
    start of Python for each was a tenth of these tests' processor time."""
    spare = spawned(launches=False)
    yield
    spare.channel.close()
    spare.reap()


@pytest.fixture(params=["process", "fake"])
def target(request: pytest.FixtureRequest) -> Iterator[Launched]:
    """A launched program that has not begun: in a process, and in memory (tests/fake)."""
    with launched(request.param) as one:
        yield one

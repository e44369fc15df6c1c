# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every directory run of the behaviour tests has an empty cache and the plugin."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from gilk.targets.keepers import spawned
from tests.fake.both import Launched, launched
from tests.programs.build import build


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use an empty cache: findings that another version has left must not replace those of this version."""
    kept = os.environ.get("GILK_CACHE")
    os.environ["GILK_CACHE"] = str(tmp_path_factory.mktemp("cache"))
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

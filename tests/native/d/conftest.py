# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fixtures that choose the host on which a module's tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.d import session
from tests.native.host import HOSTS, TestHost


@pytest.fixture(scope="module", params=HOSTS)
def either_host(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each host, one after the other."""
    with session.on_host(request.param):
        yield request.param


@pytest.fixture
def test_host() -> Iterator[TestHost]:
    """The host of tests, in its initial state."""
    with session.on_host("test"):
        host = TestHost.of(session.library())
        host.reset()
        yield host
        host.reset()

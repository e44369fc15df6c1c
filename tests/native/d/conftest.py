# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which host a module's tests run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.d import session
from tests.native.host import HOSTS, TestHost


@pytest.fixture(scope="module", params=HOSTS)
def either_host(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of them, one after the other."""
    with session.on_host(request.param):
        yield request.param


@pytest.fixture
def test_host() -> Iterator[TestHost]:
    """That of tests, as it is at first."""
    with session.on_host("test"):
        host = TestHost.of(session.library())
        host.reset()
        yield host
        host.reset()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that windows look into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.harness import Loop
from tests.programs.build import build


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop([build("work")]) as found:
        yield found

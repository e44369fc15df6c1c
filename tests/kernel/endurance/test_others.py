# SPDX-License-Identifier: LGPL-2.1-or-later
"""Others change code and processors at the same functions while points come and go there."""

from __future__ import annotations

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.load import stressed
from tests.kernel.endurance.others import OTHERS, come_and_go, others
from tests.kernel.endurance.turns import TURNS

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]


@pytest.mark.parametrize("name", OTHERS)
def test_other_code_patchers_come_and_go_beside_points(guest: Guest, kernel: KernelTarget, name: str) -> None:
    with stressed(guest, ["pipe", "futex"]), others(guest, {name: OTHERS[name]}):
        assert come_and_go(guest, kernel, 1) > 0


@TURNS
@pytest.mark.timeout(7200)
def test_all_other_code_patchers_come_and_go_beside_points_for_long(guest: Guest, kernel: KernelTarget) -> None:
    """Each change waits for all processors several times, and one of them belongs to the test's load: it takes ten
    seconds."""
    with stressed(guest, ["pipe", "futex"]), others(guest, OTHERS):
        assert come_and_go(guest, kernel, 4) > 0

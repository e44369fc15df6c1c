# SPDX-License-Identifier: LGPL-2.1-or-later
"""Points come and go all over a kernel that is busy with all its work."""

from __future__ import annotations

import os

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.churn import Churn
from tests.kernel.endurance.load import STRESSORS, stressed

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
HOURS = int(os.environ.get("GILK_ENDURANCE", "30"))  # sessions of the long run


def survived(churn: Churn) -> None:
    """Assert that points were hit, and that nearly all had a tactic. Reserved blocks may be drawn too; test_scan.py
    tests the share among the others."""
    assert churn.hit > 0
    assert sum(churn.tactics.values()) > 0.95 * (sum(churn.tactics.values()) + sum(churn.refusals.values()))


def test_points_come_and_go_under_load(guest: Guest, kernel: KernelTarget) -> None:
    churn = Churn(guest, kernel, seed=1)
    with stressed(guest, STRESSORS[:4]):
        churn.sessions(1, 60, "blocks=count", "entry=stamp", "entry=args")
    survived(churn)


@pytest.mark.stress
@pytest.mark.timeout(7200)
def test_points_come_and_go_under_load_for_long(guest: Guest, kernel: KernelTarget) -> None:
    churn = Churn(guest, kernel, seed=2)
    with stressed(guest):
        churn.sessions(HOURS, 300, "blocks=count", "blocks-post=count", "entry=stamp", "entry=regs", "entry=time")
    survived(churn)
    assert churn.inserted > HOURS * 1000

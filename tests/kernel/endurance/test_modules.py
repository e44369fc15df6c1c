# SPDX-License-Identifier: LGPL-2.1-or-later
"""Modules with points in them are unloaded under load: their points go with them, and later points can be put in."""

from __future__ import annotations

import pytest

from gilk.session.kernel_session import KernelSession
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.load import repeated, stressed

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress]
MODULE, FUNCTIONS = "dummy", ("dummy_setup", "dummy_xmit", "dummy_dev_init")


def session_in_module(guest: Guest, where: str) -> int:
    """Load the module, put points in, use it, and unload it with the points in. Returns the number of points."""
    guest.run("modprobe", MODULE)
    kernel = KernelTarget(guest.link)
    with KernelSession(kernel, points=1 << 10) as session:
        probes = [probe for name in FUNCTIONS for probe in session.insert(f"kernel:{name}:{where}", "count")]
        guest.run("sh", "-ec", "ip link add gilk0 type dummy; ip link set gilk0 up; ip link del gilk0")
        assert sum(session.counts().values()) > 0
        guest.run("rmmod", MODULE)
        session.poll()
        session.insert("kernel:vfs_read:blocks", "count")
    guest.link.close_driver()
    assert session.restored is True
    return sum(probe.tactic is not None for probe in probes)


def test_a_module_with_points_is_unloaded_under_load(guest: Guest) -> None:
    with stressed(guest, ["pipe", "fork"]):
        assert session_in_module(guest, "blocks") > 5


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_modules_with_points_are_unloaded_under_load_for_long(guest: Guest) -> None:
    """Other modules come and go at the same time, so that addresses are used again."""
    others = "for each in ifb veth bonding; do modprobe $each; done; rmmod ifb veth bonding"
    with stressed(guest), repeated(guest, "modules", others):
        for turn in range(15):
            assert session_in_module(guest, "blocks" if turn % 2 else "entry") > 0

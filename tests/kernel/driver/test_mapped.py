# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rings in the client's own memory: guest/mapped.py reads them in the virtual machine, whose kernel must map them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.driver.driving import SOURCES, Guest

pytestmark = pytest.mark.xdist_group("lab")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def said(guest: Guest) -> dict[str, Any]:
    paths = f"PYTHONPATH={ROOT / 'src'}:{ROOT}"
    with guest.text_untouched():
        out = guest.run("env", paths, sys.executable, str(SOURCES / "mapped.py"), str(guest.program))
    assert guest.complaints() == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_every_hit_gives_a_record_in_mapped_memory(said: dict[str, Any]) -> None:
    assert said["all"] == [5000] * 4


def test_records_without_room_are_counted(said: dict[str, Any]) -> None:
    assert said["no room"] == [40000, True, 10]


@pytest.mark.parametrize("how", ["while written", "while overwritten"])
def test_records_are_whole_or_lost_when_read_while_written(said: dict[str, Any], how: str) -> None:
    """Every record is read whole, or counted as lost."""
    assert said[how] == [120000, True]


def test_a_client_can_wait_for_the_watermark(said: dict[str, Any]) -> None:
    """The rings are not ready before the watermark of three chunks is reached, nor after they were read; and a
    waiting client is woken."""
    assert said["waiting"] == [[False, False, True, False, True], 3 * 1024 + 1]


def test_wrong_mappings_are_refused(said: dict[str, Any]) -> None:
    assert said["wrong maps"] == {
        "before": "ENXIO", "read": "none", "written": "EPERM", "heads written": "EPERM", "executed": "EPERM",
        "tails executed": "EPERM", "private": "EINVAL", "too long": "EINVAL", "from its middle": "EINVAL",
        "nowhere": "EINVAL", "no ring": "EINVAL",
    }  # fmt: skip


def test_protections_of_mappings_cannot_be_changed(said: dict[str, Any]) -> None:
    assert said["protected"] == [[-1, -1], 0]


def test_a_client_that_overwrites_its_ring_does_no_harm(said: dict[str, Any]) -> None:
    assert [said["wild tails"], said["wild flight"]] == [1, 1]


def test_mappings_go_with_the_client(said: dict[str, Any]) -> None:
    assert said["closed"] == [1, 0, 0]

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sites of D programs are numbers of one table, which has an end."""

from __future__ import annotations

import pytest

from gilk.errors import TargetError
from gilk.targets.kernel.d_messages import DriverProgram
from gilk.targets.kernel.driver import Driver

pytestmark = pytest.mark.xdist_group("lab")
NUMBERS = 1 << 18  # the first is no site's


@pytest.mark.parametrize("count", [NUMBERS, 1 << 31])
def test_no_session_has_more_sites_than_there_are_numbers(driver: Driver, count: int) -> None:
    with pytest.raises(TargetError) as caught:
        DriverProgram(driver).sites(count)
    assert caught.value.slug == "driver-limit"


def test_numbers_are_given_until_there_are_none(driver: Driver) -> None:
    program = DriverProgram(driver)
    assert program.sites(NUMBERS - 2) == 1
    assert program.sites(1) == NUMBERS - 1
    with pytest.raises(TargetError) as caught:
        program.sites(1)
    assert caught.value.slug == "driver-limit"

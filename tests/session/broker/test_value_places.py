# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places of arguments that a client of a broker names: in registers, in the frame, or constants, and nothing else."""

from __future__ import annotations

import json

import pytest

from gilk.image.value_place import RBP, RSP, ValuePlace
from gilk.session.broker.messages import ProtocolError, value_place


def test_places_that_there_are() -> None:
    assert value_place(None) is None
    assert value_place([0, -8, 0, 4]) == ValuePlace(0, -8, width=4)
    assert value_place([-1, (1 << 64) - 1, 0, 8]) == ValuePlace(None, (1 << 64) - 1)
    for base in (RSP, RBP):
        assert value_place([base, 16, 1, 2]) == ValuePlace(base, 16, True, 2)


@pytest.mark.parametrize(
    "row",
    [
        [], [0, 0, 0], [16, 0, 0, 8], [-2, 0, 0, 8], [0, 0, 0, 3], [0, 0, 0, "8"], [0, 0, 0, [8]], [0, 1 << 31, 0, 8],
        [-1, 1 << 64, 0, 8], [-1, 0, 1, 8], [0, 0, 1, 8], [RSP, 0, 2, 8], [RSP, 0.5, 1, 8], [True, 0, 0, 8], "args", 7,
    ],
    ids=json.dumps,
)  # fmt: skip
def test_places_that_there_are_not(row: object) -> None:
    """Memory elsewhere than in the frame might not be there."""
    with pytest.raises(ProtocolError):
        value_place(row)

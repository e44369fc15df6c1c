# SPDX-License-Identifier: LGPL-2.1-or-later
"""The order in which the client writes the members of gates."""

from __future__ import annotations

from typing import Any

import pytest

from gilk.trace.gates import Gates
from gilk.trace.layout import ARMED, CLOSED, GATE, GATES, GATES_AT, REACHED


class Row(dict[str, int]):
    """A gate that notes the order in which its members are written."""

    def __init__(self, state: int) -> None:
        super().__init__(state=state)
        self.written: list[tuple[str, int]] = []

    def __setitem__(self, name: str, value: int) -> None:
        super().__setitem__(name, value)
        self.written.append((name, value))


def gates(state: int) -> tuple[Any, Row]:
    made: Any = Gates(bytearray(GATES_AT + GATES * GATE.itemsize))
    row = Row(state)
    made._rows = [row]
    return made, row


@pytest.mark.parametrize(
    ("before", "states"),
    [(CLOSED, [ARMED]), (REACHED, [ARMED]), (ARMED, [CLOSED, ARMED])],
    ids=["closed", "held", "armed"],
)
def test_a_gate_is_armed_in_a_safe_order(before: int, states: list[int]) -> None:
    """A thread that is held looks at the state from time to time, and goes on once it is another: the next hit, which
    it may make at once, has to find the gate armed. An armed gate counts no hit while its numbers change."""
    made, row = gates(before)
    made.arm(0, hits=3, hold=1.0)
    assert [value for name, value in row.written if name == "state"] == states
    assert row.written[-1] == ("state", ARMED)
    assert (row["left"], row["rounds"]) == (3, 100)

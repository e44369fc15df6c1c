# SPDX-License-Identifier: LGPL-2.1-or-later
"""The thread that an interrupt is attributed to."""

from __future__ import annotations

from gilk.trace.interrupts import Interrupts, lane, lane_name


def test_without_a_selection_all_threads_are_attributed() -> None:
    assert Interrupts().at(1, 20, 21) == (20, 21)
    assert Interrupts().at(1, None, 21) == (21, 21)


def test_interrupts_are_attributed_to_the_selected_thread_on_its_processor() -> None:
    """An interrupt is not attributed before the thread was seen, nor where it was earlier, nor to a thread that has
    ended."""
    whose = Interrupts(frozenset((20,)))
    assert whose.at(1, 7, 7) is None
    assert whose.at(1, 20, 21) == (20, 21)
    assert whose.at(1, 7, 7) == whose.at(1, 0, 0) == (0, lane(1))
    assert whose.at(0, 7, 7) is None
    assert whose.at(0, 20, 21) == (20, 21)
    assert whose.at(1, 7, 7) is None
    assert whose.at(0, 7, 7) == (0, lane(0))
    whose.at(3, 20, 22)
    assert {whose.at(cpu, 7, 7) for cpu in range(4)} == {(0, lane(0)), None, (0, lane(3))}
    whose.forget(21)
    assert {whose.at(cpu, 7, 7) for cpu in range(4)} == {None, (0, lane(3))}


def test_interrupts_of_a_thread_ended_before_its_lookup() -> None:
    whose = Interrupts(frozenset((20,)))
    assert whose.at(1, None, 8) == (8, 8)
    assert whose.at(1, None, 20) == (20, 20)
    assert whose.at(1, None, 8) == (0, lane(1))


def test_lanes_are_named_by_processor() -> None:
    assert [lane_name(lane(cpu)) for cpu in (0, 17)] == ["interrupts of CPU 0", "interrupts of CPU 17"]
    assert lane_name(0) == lane_name(5) == ""

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places at which return probes of a kernel need something, one for each point and kind of site."""

from __future__ import annotations

from typing import Any

from gilk.engines.dtrace.kernel_places import attachments, merged, of_returns
from gilk.lang.d.probes import DProbe
from gilk.splice.points import Point
from gilk.targets.call_ends import CallEnds, CodePlace, SiteRole
from gilk.targets.kernel.d_messages import KernelFire, SiteKind

JUMPS, SHARED = DProbe(7, "fbt", "vmlinux", "jumps", "return"), DProbe(8, "fbt", "vmlinux", "shared", "return")
NOTHING: Any = None


def place(address: int) -> CodePlace:
    return CodePlace(NOTHING, NOTHING, Point("kernel", "f", "@0:post", address, False))


def fire(probe: DProbe) -> KernelFire:
    return KernelFire(0, SiteKind.RETURN, group=probe.number * 10, probe=probe.number, start=0x1000)


def both(rounds: bool = False) -> list[Any]:
    """The places of a function that returns at 0x10 or jumps at 0x20, and of the one that it jumps to, which returns at
    0x30."""
    jumping = CallEnds((place(0x10),), jumps=(place(0x20),), elsewhere=(place(0x30),), rounds=rounds)
    made = [*of_returns(jumping, fire(JUMPS), JUMPS), *of_returns(CallEnds((place(0x30),)), fire(SHARED), SHARED)]
    return merged(made)


def roles(found: list[Any]) -> dict[int, list[tuple[SiteRole, int]]]:
    return {each.at[0]: [(one.role, one.probe) for one in each.fires] for each in found}


def test_the_innermost_call_is_over_first() -> None:
    assert roles(both()) == {
        0x10: [(SiteRole.FIRES, 7)], 0x20: [(SiteRole.LEAVES, 7)], 0x30: [(SiteRole.FIRES, 8), (SiteRole.ENDS, 0)],
    }  # fmt: skip


def test_a_call_that_comes_back_to_its_function_drops_its_note() -> None:
    assert roles(both(rounds=True))[0x10] == [(SiteRole.RETURNS, 7)]


def test_only_the_probe_that_fires_at_a_place_is_refused_with_it() -> None:
    assert {each.at[0]: each.probes for each in both()} == {0x10: (JUMPS,), 0x20: (JUMPS,), 0x30: (SHARED,)}


def test_a_place_that_ends_calls_of_many_is_there_once() -> None:
    first = CallEnds((), jumps=(place(0x20),), elsewhere=(place(0x30),))
    second = CallEnds((), jumps=(place(0x40),), elsewhere=(place(0x30),))
    found = merged([*of_returns(first, fire(JUMPS), JUMPS), *of_returns(second, fire(SHARED), SHARED)])
    assert roles(found)[0x30] == [(SiteRole.ENDS, 0)]


def test_a_call_is_over_at_its_jump_if_a_place_where_it_may_end_was_refused() -> None:
    places = dict(enumerate(both(), 5))
    kept = {(one.address, one.site): one.role for one in attachments(places, set())}
    assert kept[0x20, 6] is SiteRole.LEAVES
    there = {site: one for site, one in places.items() if one.at[0] != 0x30}
    cut = {(one.address, one.site): one.role for one in attachments(there, {(0x30, SiteKind.RETURN)})}
    assert cut == {(0x10, 5): SiteRole.FIRES, (0x20, 6): SiteRole.FIRES}

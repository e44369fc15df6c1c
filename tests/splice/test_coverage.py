# SPDX-License-Identifier: LGPL-2.1-or-later
"""The share of points in real programs that have a tactic, which the project promises."""

from __future__ import annotations

import pytest

from gilk.splice import points
from gilk.splice.instrument import Count
from gilk.splice.plan import Want
from gilk.splice.planner import plan
from gilk.targets.image import pretend_loaded
from tests.splice.holds import analysed, violations

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LARGE = [f"{LIBRARIES}/libc.so.6", f"{LIBRARIES}/libcrypto.so.3", "/usr/bin/gdb", "/usr/bin/python3"]


def check(path: str, where: tuple[str, ...]) -> None:
    """Assert that at least 99.9 % of all points have a tactic, that every other point has a reason, and that the plans
    hold.

    A program at the bottom of the address space has less room for puns: for it the share is 99.5 %.
    """
    analysis = analysed(path)
    ground = pretend_loaded(analysis)
    asked, key = [], 0
    for function in analysis.functions():
        wants = []
        for kind in where:
            for point in points.points(analysis.image, analysis, function, kind):
                key += 1
                wants.append(Want(point.address, point.after, Count(key), key))
        asked.append((function, wants))
    asked.sort(key=lambda item: -item[0].start)
    made = plan(ground, asked).functions
    refused = sum(len(p.refusals) for p in made)
    low = not analysis.image.position_independent
    assert refused < key * (0.005 if low else 0.001), [p.refusals for p in made if p.refusals]
    assert violations(path, ground, [(w, p) for (_, w), p in zip(asked, made, strict=True)]) == []


@pytest.mark.stress
def test_nearly_every_point_of_bash_has_a_splice() -> None:
    check("/bin/bash", ("blocks", "blocks-post"))


@pytest.mark.stress
@pytest.mark.parametrize("path", LARGE)
@pytest.mark.parametrize("where", [("blocks",), ("blocks-post",), ("blocks", "blocks-post")])
def test_nearly_every_point_of_large_programs_has_a_splice(path: str, where: tuple[str, ...]) -> None:
    check(path, where)

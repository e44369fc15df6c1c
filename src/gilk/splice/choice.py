# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chooses, for each wanted segment of a function, where and how to splice, by the table of tactics."""

from __future__ import annotations

from collections import Counter

from gilk.splice.ground import FunctionLayout
from gilk.splice.segments import Segment
from gilk.splice.tactics.table import rounds
from gilk.splice.tactics.tactic import Choice, Choices


def choose(layout: FunctionLayout, failed: Counter[int]) -> tuple[dict[int, Choice], list[Segment]]:
    """The decisions, by segments' starts, and the segments for which there is no tactic. ``failed`` as in Choices."""
    choices = Choices(layout, failed, rounds(layout.policy))
    left = layout.wanted()
    for tries in choices.rounds:
        left = [segment for segment in left if not choices.splice(segment, tries)]
    return choices.made, left

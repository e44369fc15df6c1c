# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that asks whether a thread is a member of the groups of an element, in files whose advice changes groups."""

from __future__ import annotations

from collections.abc import Sequence

from gilk.lang.aspect.code.meeting import MetElement


def is_member(met: MetElement) -> str:
    """A test in the matcher of an element. Aspects of a single element need none: on() leaves them out."""
    return f"if (!(gilk_groups() & {met.members:#x}UL)) return 0;\n" if met.members and met.aspect.is_sequence else ""


def placed(elements: Sequence[MetElement]) -> str:
    """An expression with a bit for each aspect that has an element of which the thread is a member, and for each other
    aspect; "" if no element asks for that."""
    masks: dict[int, list[int]] = {}
    for one in elements:
        masks.setdefault(one.aspect.number, []).append(one.members)
    asked = {number: _any(found) for number, found in masks.items() if all(found)}
    if not asked:
        return ""
    without = " | ".join(f"(gilk_own_groups & {found:#x}UL ? 0 : 1UL << {n})" for n, found in sorted(asked.items()))
    return f"({{ gilk_u64 gilk_own_groups = gilk_groups(); ~({without}); }})"


def _any(masks: Sequence[int]) -> int:
    found = 0
    for one in masks:
        found |= one
    return found

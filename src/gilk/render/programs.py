# SPDX-License-Identifier: LGPL-2.1-or-later
"""The part of a report about the programs of a followed tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gilk.render.names import readable_in
from gilk.render.text import cell, plural, table
from gilk.trace.probes import by_function
from gilk.trace.programs import ProgramOutcome, by_name

_NAMED = 10  # the most programs not seen that are named
_ROWS = 40


def summary(programs: Sequence[ProgramOutcome]) -> str:
    """The number of programs that were followed, and those that were not, with the reason; '' if there are no
    programs.
    """
    if not programs:
        return ""
    missed = [one for one in programs if one.slug]
    with_points = sum(1 for one in programs if one.points)
    text = f"followed {plural(len(programs) - len(missed), 'program')}, {with_points} with such points\n"
    for one in missed[:_NAMED]:
        text += f"  not seen: process {one.pid} ({cell(one.path)}): {cell(one.message)} ({one.slug})\n"
    return text + (f"  and {len(missed) - _NAMED} more\n" if len(missed) > _NAMED else "")


def counts(programs: Sequence[ProgramOutcome], by: str, terminal: bool | None = None) -> str:
    """A table of the hits of each point in each `program`, by its name, or in each `process` that has executed one."""
    if by == "program":
        named = list(by_name(programs).items())
    else:
        named = [(f"{one.pid} {one.name}", Counter(one.counts)) for one in programs]
    summed = [(who, Counter(by_function(each))) for who, each in named]
    rows = [(hits, cell(who), readable_in(point)) for who, each in summed for point, hits in each.most_common() if hits]
    if not rows:
        return ""
    text = table(("count", by, "point"), rows[:_ROWS], terminal)
    return text + (f"and {len(rows) - _ROWS} more\n" if len(rows) > _ROWS else "")

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Print the results of tools/peers as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from .trial import Result

_HEAD = "flags     tried  built   same  known  WRONG   refused  counters"


def table(results: Iterable[Result]) -> str:
    """The table: a line for each set of flags, then every difference, those without a reason last."""
    rows = list(results)
    sets = dict.fromkeys(each.flags for each in rows)
    lines = [_line(flags, [each for each in rows if each.flags == flags]) for flags in sets]
    return "\n".join([_HEAD, *lines, _line("all", rows), *_reasons(rows), *_unexplained(rows)])


def _line(name: str, rows: list[Result]) -> str:
    built = [each for each in rows if each.outcome == "built"]
    wrong = sum(bool(each.unexplained) for each in built)
    known = sum(bool(each.differences) and not each.unexplained for each in built)
    refused, points = sum(each.refused for each in rows), sum(each.points for each in rows)
    share = f"{100 * refused / points:.3f} %" if points else "-"
    same = len(built) - wrong - known
    counters = sum(each.counters for each in rows)
    return f"{name:8} {len(rows):6} {len(built):6} {same:6} {known:6} {wrong:6} {share:>9} {counters:9}"


def _reasons(rows: list[Result]) -> Iterator[str]:
    found = Counter(each.reason for row in rows for each in row.differences if each.reason)
    notes = Counter(note for row in rows for note in row.notes)
    for text, number in (*found.most_common(), *notes.most_common()):
        yield f"{number:4} times: {text}"


def _unexplained(rows: list[Result]) -> Iterator[str]:
    for row in rows:
        for each in row.unexplained:
            yield f"WRONG {row.suite}/{row.program} {row.flags}, {each.way}, {each.what}: {each.detail}"


def as_json(results: Iterable[Result]) -> str:
    return json.dumps({"results": [each.as_json() for each in results]}, indent=1)

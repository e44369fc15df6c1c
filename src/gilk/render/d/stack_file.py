# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stacks in a file of events (event_file.py), for flame graphs: keys of aggregations, and stacks that were printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gilk.errors import UsageError
from gilk.render.d import event_file
from gilk.trace.stacks import CountedStack, added

Row = dict[str, Any]
_COLUMNS = ("type", "action", "aggregation", "final", "cpu", "data", "keys", "total")


def stacks_of(path: Path, name: str = "") -> list[CountedStack]:
    """The stacks of the aggregation, or the action, ``name``: ``@a``, ``ustack``; of the only one that has stacks for
    ''. Its totals are the counts, or the numbers of values that they are made of. Raises StoreError, UsageError
    `usage`."""
    found: dict[str, list[CountedStack]] = {}
    for row in event_file.read(path)["events"].select(_COLUMNS).to_pylist():
        for each in _in_row(row):
            found.setdefault(each.point, []).append(each)
    if not found:
        raise UsageError("usage", f"{path} has no stacks", "for example '{ @[ustack()] = count(); }'")
    names = ", ".join(sorted(found))
    if name and name not in found:
        raise UsageError("usage", f"{path} has no stacks of {name}", f"there are: {names}")
    if not name and len(found) > 1:
        raise UsageError("usage", f"{path} has several kinds of stacks", f"choose one by --of: {names}")
    return added(found[name or next(iter(found))])


def _in_row(row: Row) -> Iterator[CountedStack]:
    """The stacks in a row, each with a count above 0."""
    if row["type"] == "printed":
        for value in row["data"] or ():
            if value["stack"]:
                yield CountedStack(row["action"], tuple(value["stack"]), 1)
    elif row["type"] == "aggregation" and row["final"] and row["cpu"] is None:
        frames = tuple(frame for key in row["keys"] or () for frame in key["stack"] or ())
        count = _count(row["total"])
        if frames and count > 0:
            yield CountedStack(row["aggregation"], frames, count)


def _count(total: Row) -> int:
    if total["buckets"] is not None:
        return sum(bucket["count"] for bucket in total["buckets"])
    return int(total["integer"] or total["unsigned"] or 0)

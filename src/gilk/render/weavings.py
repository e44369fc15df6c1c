# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings that are in force, as text: the answers of weavers (engines/aspect/asking.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gilk.render.text import cell, plural

_FAILED = ("lost", "crowded", "missed", "unwalked", "disagreed")
_NAMES = ("begun", "open", "ended", "until", "late", "replaced", "gone", *_FAILED)


def listed(found: Sequence[Mapping[str, Any]]) -> str:
    """A line for each weaving: number, file, processes, matches, and its begin."""
    return "".join(f"{_line(one)}\n" for one in found) or "nothing is woven\n"


def _line(one: Mapping[str, Any]) -> str:
    if "silent" in one:
        return f"{one['id']:>8}  {cell(one['silent'])}"
    matches = sum(sum(aspect["matches"]) for aspect in one["aspects"])
    off = "" if all(aspect["on"] for aspect in one["aspects"]) else ", not all on"
    gone = ", its weaver has gone" if one.get("abandoned") else ""
    processes = plural(len(one["pids"]), "process")
    state = f"{processes}, {matches} matches{off}{gone}"
    return f"{one['id']:>8}  {cell(one['file'])}  {state}  since {_time(one['began'])}"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def shown(number: int, found: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in _shown(number, found))


def _shown(number: int, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{number}: {cell(found['file'])}, since {_time(found['began'])}"
    there = set(found["pids"])
    for one in found["processes"]:
        left = "" if one["pid"] in there else ", which has left"
        yield f"process {one['pid']}: {plural(one['functions'], 'function')}{left}"
        for note in one["notes"]:
            yield f"  {cell(note)}"
    for aspect in found["aspects"]:
        yield f"{cell(aspect['name'])}{'' if aspect['on'] else ' (off)'}: {_counted(aspect)}"
    for report in found["reports"][-10:]:
        yield f"[{report['pid']}] {cell(report['text'])}"
    more = found["told"] - min(len(found["reports"]), 10)
    if more > 0:
        yield f"{plural(more, 'report')} before"


def _counted(aspect: Mapping[str, Any]) -> str:
    matched = f"matches {' '.join(map(str, aspect['matches']))}"
    names = _FAILED if len(aspect["matches"]) == 1 else _NAMES
    return ", ".join((matched, *(f"{name} {aspect[name]}" for name in names if aspect.get(name))))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The slow calls of a function with the tree of what they called, and what is different in other calls."""

from __future__ import annotations

from typing import Any

from gilk.render.comparison import short_path
from gilk.render.flow_table import missing_text, omitted_text
from gilk.render.flow_tree import TreeLimits, joined_text, tree_json
from gilk.render.text import nanoseconds, plural
from gilk.trace.paths import label
from gilk.trace.slow_calls import SlowCalls, SlowPath

Json = dict[str, Any]
_DIFFERENT = 10  # paths that are shown


def to_text(found: SlowCalls, threshold: int, limit: int) -> str:
    """The report as text; ``limit`` is the most lines of the tree, 0 for all. Ends with a newline."""
    all_ = found.count + found.others
    text = f"{found.count} of {plural(all_, 'call')} took {nanoseconds(threshold)} or longer"
    text += f", the longest {nanoseconds(found.longest)}\n" if all_ else "\n"
    if found.unknown:
        text += f"{plural(found.unknown, 'call')} left out, for not both ends are known\n"
    text += missing_text(found.slow) + omitted_text(found.slow)
    if not found.count:
        return text
    text += f"\nwhat the slow calls called:\n{joined_text(found.slow, TreeLimits(lines=limit))}"
    if not found.others:
        return f"{text}\nthere are no other calls to compare them with\n"
    told = "".join(f"  {_different(each)}\n" for each in found.paths[:_DIFFERENT]) or "  nowhere\n"
    return f"{text}\nwhere a slow call spent more time than another one:\n{told}"


def _different(one: SlowPath) -> str:
    path = short_path([label(each) for each in one.path])
    slow, other = (nanoseconds(each) for each in one.own)
    return f"+{nanoseconds(one.excess)}  {path}: {slow} in itself, otherwise {other} ({_calls(one)})"


def _calls(one: SlowPath) -> str:
    """How many calls a call of the function makes there, on average."""
    slow, other = (f"{each:.3g}" for each in one.calls)
    return f"called {slow} times, otherwise {other}" if slow != other else f"called {slow} times"


def to_json(found: SlowCalls, threshold: int, limit: int) -> Json:
    """The report as JSON; ``limit`` is the most paths, 0 for all."""
    return {
        "longer_than_ns": threshold, "calls": found.count + found.others, "slow": found.count,
        "longest_ns": found.longest, "unknown": found.unknown,
        "threads": tree_json(found.slow, TreeLimits()),
        "different": [_row(each) for each in found.paths[: limit or None]],
    }  # fmt: skip


def _row(one: SlowPath) -> Json:
    return {
        "path": [label(each) for each in one.path], "calls": one.calls[0], "calls_otherwise": one.calls[1],
        "own_ns": round(one.own[0]), "own_ns_otherwise": round(one.own[1]),
    }  # fmt: skip

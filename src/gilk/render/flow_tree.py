# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace as a tree of text, in which the calls of one path are one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gilk.render.flow_table import missing_text
from gilk.render.source_place import LinesOf, no_lines, with_line
from gilk.render.text import cell, listed, nanoseconds, plural
from gilk.trace.flow import CallState, Flow
from gilk.trace.paths import Paths, of_flow
from gilk.values import dataclass

Json = dict[str, Any]
#: The functions that a function calls directly and that are not followed, by the function and its image.
Missing = dict[tuple[str, str], list[str]]
_NAMED = 6


@dataclass(frozen=True)
class TreeLimits:
    """The limits of a tree. `depth` is the most levels of calls, `least` the fewest ns that a line's calls took
    together, `lines` the most lines; 0 is no limit.
    """

    depth: int = 0
    least: int = 0
    lines: int = 0


@dataclass(frozen=True)
class _Thread:
    name: str
    paths: Paths
    open: Any  # for each path, the number of its calls under way at the stop
    missing: Missing
    lines: LinesOf


def tree_text(flow: Flow, limits: TreeLimits, source: LinesOf = no_lines) -> str:
    """The tree as text: first what is missing from it; then for each thread lines of total time, time in the function
    itself, calls, function, with the line of the source that it begins at if ``source`` knows it.

    Below a function its callees that are not followed are named. Ends with a newline.
    """
    lines = missing_text(flow).splitlines()
    for thread in _threads(flow, source):
        lines += [cell(thread.name), *_table(thread, limits)]
    return "".join(f"{line}\n" for line in lines)


def joined_text(flow: Flow, limits: TreeLimits, source: LinesOf = no_lines) -> str:
    """The calls of all threads as one tree, without names of threads; ends with a newline."""
    thread = _thread("", flow, missing_below(flow), source)
    return "".join(f"{line}\n" for line in _table(thread, limits))


def tree_json(flow: Flow, limits: TreeLimits, source: LinesOf = no_lines) -> list[Json]:
    """The tree as JSON: [{thread, calls: [{function, image, lane, calls, total, self, open, children}]}]; a node also
    has `not_followed` if it calls such functions, and `line` if ``source`` knows it.
    """
    return [{"thread": thread.name, "calls": _nodes(thread, limits)} for thread in _threads(flow, source)]


def missing_below(flow: Flow) -> Missing:
    missing: Missing = {}
    for each in flow.unfollowed:
        for caller in each.callers:
            missing.setdefault((caller, each.image), []).append(each.function)
    return missing


def _threads(flow: Flow, source: LinesOf) -> Iterator[_Thread]:
    missing = missing_below(flow)
    for rows in flow.tracks:
        part = flow.only_rows(rows)
        first = flow.table.slice(rows.start, 1).to_pylist()[0]
        name = f"{first['thread']} ({first['tid']} of {first['pid']})" if first["tid"] != first["pid"] else ""
        name = name or f"{first['thread']} ({first['pid']})"
        name += f", stack {first['stack']}" if first["stack"] else ""
        yield _thread(name, part, missing, source)


def _thread(name: str, calls: Flow, missing: Missing, source: LinesOf) -> _Thread:
    paths = of_flow(calls)
    running = np.bincount(paths.of[calls.is_state(CallState.OPEN)], minlength=len(paths.parent))
    return _Thread(name, paths, running, missing, source)


def _table(thread: _Thread, limits: TreeLimits) -> list[str]:
    """The heading and the lines of a tree; at last how many more there are."""
    rows = list(_rows(thread, limits))
    shown = rows[: limits.lines or None]
    more = [f"and {plural(len(rows) - len(shown), 'line')} more"] if len(rows) > len(shown) else []
    return [f"{'total':>9} {'self':>9} {'calls':>8}", *(_text(thread, *row) for row in shown), *more]


def _kept(thread: _Thread, paths: list[int], depth: int, limits: TreeLimits) -> list[int]:
    if limits.depth and depth >= limits.depth:
        return []
    return [path for path in paths if thread.paths.total[path] >= limits.least]


def _rows(thread: _Thread, limits: TreeLimits) -> Iterator[tuple[int, int, list[str]]]:
    """The lines of a tree, each as a path, its depth, and no names; or, below its line, the names of its callees that
    are not followed."""
    paths = thread.paths
    waiting = [(path, 0) for path in reversed(_kept(thread, paths.roots, 0, limits))]
    while waiting:
        path, depth = waiting.pop()
        yield path, depth, []
        missing = thread.missing.get(paths.symbols[int(paths.symbol[path])][:2])
        if missing:
            yield path, depth + 1, missing
        inner = _kept(thread, paths.children[path], depth + 1, limits)
        waiting += [(child, depth + 1) for child in reversed(inner)]


def _text(thread: _Thread, path: int, depth: int, missing: list[str]) -> str:
    if missing:
        return f"{'':>28}  {'  ' * depth}[not followed: {listed(missing, _NAMED)}]"
    paths = thread.paths
    figures = f"{nanoseconds(paths.total[path]):>9} {nanoseconds(paths.own[path]):>9} {paths.calls[path]:>8}"
    note = f" ({thread.open[path]} open)" if thread.open[path] else ""
    return f"{figures}  {'  ' * depth}{with_line(paths.symbols[int(paths.symbol[path])], thread.lines)}{note}"


def _nodes(thread: _Thread, limits: TreeLimits) -> list[Json]:
    """The calls of a thread as nested objects. The loop does not recurse, since a trace may be deeper than Python's
    stack. Calls more than 400 levels deep are left out, since readers of JSON do not go much further.
    """
    paths = thread.paths
    top: list[Json] = []
    waiting = [(path, 0, top) for path in reversed(_kept(thread, paths.roots, 0, limits))]
    while waiting:
        path, depth, into = waiting.pop()
        name, image, lane = paths.symbols[int(paths.symbol[path])]
        node: Json = {"function": name, "image": image, "lane": lane, "calls": int(paths.calls[path])}
        line = thread.lines(name, image)
        node |= {"line": line} if line else {}
        node |= {"total": int(paths.total[path]), "self": int(paths.own[path]), "open": int(thread.open[path])}
        missing = thread.missing.get((name, image))
        node |= {"not_followed": missing} if missing else {}
        node["children"] = []
        into.append(node)
        if depth < 400:
            inner = _kept(thread, paths.children[path], depth + 1, limits)
            waiting += [(child, depth + 1, node["children"]) for child in reversed(inner)]
    return top

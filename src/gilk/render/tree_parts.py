# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calling contexts of a trace, opened node by node: as a tree of each thread, and as a flame graph of all.

Times are in ns. A node is named by its number, which stays the same as long as the file does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from gilk.errors import UsageError
from gilk.render.timeline_parts import TimelineParts
from gilk.trace import call_tree
from gilk.trace.call_tree import ContextTree

Json = dict[str, Any]
_MOST: Final = 200  # the most children of a node
_BARS: Final = 3000
_NARROWEST: Final = 0.0005  # the part of the picture's width below which bars are left out
_DEEPEST: Final = 100  # the most bars above each other


class TreeParts:
    def __init__(self, parts: TimelineParts) -> None:
        self._parts, self._symbols = parts, parts.symbols

    @cached_property
    def _tree(self) -> ContextTree:
        return call_tree.by_thread(self._parts.index)

    @cached_property
    def _flame(self) -> ContextTree:
        return call_tree.of_all_threads(self._parts.index)

    def tree(self, node: int) -> Json:
        """The callees of a node's calls, those with the most time first; for -1 the outermost calls of each thread.
        A function has ``not_followed`` if it calls functions that are not followed. Raises UsageError `no-such-node`.
        """
        tree = self._checked(self._tree, node)
        found = tree.children(node).tolist()
        made = {"node": node, "path": [self._shown(tree, each) for each in tree.path(node)], "cut": tree.cut}
        made["lacking"] = self._parts.lacking
        if node >= 0:
            return {**made, **self._listed(tree, found)}
        by_track: dict[int, list[int]] = {number: [] for number in range(len(self._parts.index.tracks))}
        for each in found:
            by_track[int(tree.track[each])].append(each)
        names = [track["name"] for track in self._parts.head["tracks"]]
        threads = [{"thread": names[track], **self._listed(tree, mine)} for track, mine in by_track.items()]
        return {**made, "threads": threads}

    def flame(self, node: int) -> Json:
        """The bars above a node, with callers below: ``depth`` from 0, ``x`` and ``width`` as parts of the whole.
        Raises UsageError `no-such-node`.
        """
        tree = self._checked(self._flame, node)
        roots = [node] if node >= 0 else tree.children(-1).tolist()
        total = sum(int(tree.total[each]) for each in roots)
        bars: list[Json] = []
        left_out = 0
        waiting = [(roots, 0, 0.0)]
        while waiting:
            siblings, depth, x = waiting.pop(0)
            for each in siblings:
                width = int(tree.total[each]) / max(total, 1)
                if width < _NARROWEST or depth >= _DEEPEST or len(bars) >= _BARS:
                    left_out += 1
                else:
                    bars.append({"depth": depth, "x": x, "width": width, **self._shown(tree, each)})
                    waiting.append((tree.children(each).tolist(), depth + 1, x))
                x += width
        path = [self._shown(tree, each) for each in tree.path(node)]
        return {"node": node, "path": path, "total": total, "contexts": len(tree.parent), "cut": tree.cut,
                "bars": bars, "left_out": left_out}  # fmt: skip

    def _checked(self, tree: ContextTree, node: int) -> ContextTree:
        if not -1 <= node < len(tree.parent):
            raise UsageError("no-such-node", f"the trace has no node {node}", "the tree as a whole has the numbers")
        return tree

    def _listed(self, tree: ContextTree, found: list[int]) -> Json:
        rows = [{**self._shown(tree, each), "children": len(tree.children(each))} for each in found[:_MOST]]
        return {"calls": rows, "left_out": max(0, len(found) - _MOST)}

    def _shown(self, tree: ContextTree, node: int) -> Json:
        name, image, lane = self._symbols[int(tree.symbol[node])]
        figures = {each: int(getattr(tree, each)[node]) for each in ("calls", "total", "open")}
        found = {"node": node, "function": name, "image": image, "lane": lane, "self": int(tree.own[node]), **figures}
        missing = self._parts.missing.get((name, image))
        return found | ({"not_followed": missing} if missing else {})

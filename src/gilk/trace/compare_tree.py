# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of a thread as a tree for a comparison: the callees of each call, and a number that tells whether two trees
are alike.

Calls of functions that either trace ceased to follow are left out, and their callees count as those of their caller: it
is chance which of them are in a trace.
"""

from __future__ import annotations

from collections.abc import Mapping

from gilk.trace.flow import Flow
from gilk.trace.paths import Symbol, symbols_of
from gilk.values import dataclass

_PRIME = (1 << 61) - 1
_STEP = 0x1E3779B97F4A7C15
NONE = -1


@dataclass(frozen=True, eq=False)
class CallTree:
    """The calls of one thread, as arrays.

    By row less `first`: the function (a number that is the same in both traces; NONE if it is left out), its state, its
    parent (NONE for the outermost), its callees, and a mark that only equal trees share.
    """

    thread: str
    main: bool
    first: int
    symbol: list[int]
    state: list[int]
    parent: list[int]
    children: list[list[int]]
    roots: list[int]
    mark: list[int]

    def size(self, call: int) -> int:
        """The number of calls in the tree below and including ``call``."""
        count, waiting = 0, [call]
        while waiting:
            count += 1
            waiting += self.children[waiting.pop()]
        return count

    def path(self, call: int) -> tuple[int, ...]:
        """The symbols from the outermost call to this one."""
        found = []
        while call != NONE:
            found.append(self.symbol[call])
            call = self.parent[call]
        return tuple(reversed(found))


def threads(flow: Flow, numbers: Mapping[Symbol, int]) -> list[CallTree]:
    """The threads of a whole trace; `numbers` has the numbers of the symbols that are compared."""
    symbol, symbols = symbols_of(flow)
    known = [numbers.get(each, NONE) for each in symbols]
    columns = [flow.column(name) for name in ("state", "parent", "pid", "tid")]
    found = []
    for rows in flow.tracks:
        part = slice(rows.start, rows.stop)
        state, parent = (column[part].tolist() for column in columns[:2])
        pid, tid = (int(column[rows.start]) for column in columns[2:])
        name = flow.table["thread"][rows.start].as_py() or ""
        row = [known[each] for each in symbol[part].tolist()]
        found.append(
            _calls(name, pid == tid, rows.start, row, state, [n - rows.start if n >= 0 else NONE for n in parent])
        )
    return found


def _calls(thread: str, main: bool, first: int, symbol: list[int], state: list[int], parent: list[int]) -> CallTree:
    """The tree of a thread. Parents come before their children, so one pass down finds the callers, and one up the
    marks.
    """
    children: list[list[int]] = [[] for _ in symbol]
    roots: list[int] = []
    for call, above in enumerate(parent):
        while above != NONE and symbol[above] == NONE:
            above = parent[above]
        parent[call] = above
        if symbol[call] != NONE:
            (roots if above == NONE else children[above]).append(call)
    mark = [0] * len(symbol)
    for call in range(len(symbol) - 1, -1, -1):
        value = symbol[call] * 8 + state[call] + 1
        for child in children[call]:
            value = (value * _STEP + mark[child]) % _PRIME
        mark[call] = (value * _STEP + 1) % _PRIME
    return CallTree(thread, main, first, symbol, state, parent, children, roots, mark)

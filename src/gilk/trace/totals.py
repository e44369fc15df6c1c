# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a flow: the number of calls of each, and the time it took with and without its callees."""

from __future__ import annotations

import numpy as np

from gilk.trace.flow import Flow
from gilk.trace.nesting import Bools, Ints
from gilk.trace.paths import Symbol, of_flow
from gilk.values import dataclass


@dataclass(frozen=True, eq=False)
class FunctionTotals:
    """The number of calls, and times in ns, by symbol: ``total`` counts time in nested calls of the function itself
    once, ``own`` is without its callees. ``of`` has each call's symbol.
    """

    symbols: tuple[Symbol, ...]
    of: Ints
    calls: Ints
    total: Ints
    own: Ints


def by_function(flow: Flow, counted: Bools | None = None) -> FunctionTotals:
    """The totals of a flow. ``counted``: a mask of the calls that are counted; None for all. The times are those of all
    calls.
    """
    paths = of_flow(flow)
    count, outer = len(paths.symbols), paths.outermost
    symbol = paths.symbol[paths.of]
    return FunctionTotals(
        paths.symbols,
        symbol,
        calls=np.bincount(symbol if counted is None else symbol[counted], minlength=count),
        total=np.bincount(paths.symbol[outer], weights=paths.total[outer], minlength=count).astype(np.int64),
        own=np.bincount(paths.symbol, weights=paths.own, minlength=count).astype(np.int64),
    )

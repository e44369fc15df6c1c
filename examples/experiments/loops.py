# SPDX-License-Identifier: LGPL-2.1-or-later
"""A strategy of one's own: count the rounds of every loop.

gilk run -i 'libc:*sort*=@examples/experiments/loops.py:loops' -- COMMAND
"""

from collections.abc import Iterator

import gilk


def loops(function: gilk.FunctionView) -> Iterator[gilk.Place]:
    """The points before the blocks that are jumped back to, from themselves or from later blocks."""
    heads = {start for view in function.blocks for start in view.block.successors if start <= view.block.start}
    return (view.pre for view in function.blocks if view.block.start in heads)


loops.instrument = "count"  # type: ignore[attr-defined]  # unless another is asked for

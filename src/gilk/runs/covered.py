# SPDX-License-Identifier: LGPL-2.1-or-later
"""The blocks that a run has counted, with their places in the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gilk.analysis.model import Function
from gilk.session.inlined import NamedFunctions
from gilk.targets.base import Loaded
from gilk.trace.coverage import BlockCount, FunctionCoverage

_BLOCK = re.compile(r":@\d+:pre$")  # ends the name of a point at a block that is not named as the function's entry


def kept(asked: NamedFunctions, counts: Mapping[str, int]) -> tuple[FunctionCoverage, ...]:
    """The functions that a file of samples keeps: those of `covered` if blocks were counted, and otherwise none."""
    return tuple(covered(asked, counts)[0]) if any(map(_BLOCK.search, counts)) else ()


def covered(asked: NamedFunctions, counts: Mapping[str, int]) -> tuple[list[FunctionCoverage], list[str]]:
    """The functions whose blocks were counted, by image and address; and the names of functions that are left out.

    Counts go by the names of points, which functions of the same name share: such functions are left out.
    """
    found, left = [], set()
    for loaded, function, shared in asked.instrumented():
        blocks = tuple(_blocks(loaded, function, counts))
        if shared and blocks:
            left.add(function.name)
        elif blocks:
            found.append(
                FunctionCoverage(
                    loaded.path,
                    loaded.start,
                    loaded.end,
                    loaded.bias,
                    function.name,
                    function.start,
                    blocks,
                    asked.content(loaded.path),
                )
            )
    return sorted(found, key=lambda each: (each.path, each.start)), sorted(left)


def _blocks(loaded: Loaded, function: Function, counts: Mapping[str, int]) -> Iterator[BlockCount]:
    for block in function.blocks:
        label = f"{loaded.name}:{function.name}:"
        count = counts.get(f"{label}@{block.index}:pre")
        if count is None and block.start == function.start:
            count = counts.get(f"{label}entry")
        if count is not None:
            yield BlockCount(block.start, block.end, count)

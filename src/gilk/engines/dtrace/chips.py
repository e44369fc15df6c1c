# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processors of this machine as a library of D: the chip and the memory node of each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from gilk.engines.dtrace import halves
from gilk.targets import topology


def library() -> str:
    """The text of the library: inlines by the number of a processor, with the present numbers, and a number that is
    greater than that of any processor the machine may have."""
    chips: Mapping[int, int] = {}
    nodes: Mapping[int, int] = {}
    with suppress(OSError, ValueError):  # a machine without these files has one chip and one node
        chips, nodes = topology.chips(), topology.nodes()
    lines = (
        f"int processor_chip[int N] = {chosen(chips)}",
        f"int processor_node[int N] = {chosen(nodes)}",
        f"int processor_count = {topology.most()}",
    )
    return "".join(f"inline {line};\n" for line in lines)


def chosen(known: Mapping[int, int]) -> str:
    """An expression of D that gives the value for N; runs of neighbours with the same value take one step."""
    groups = groupby(sorted(known.items()), lambda row: row[1])
    return halves.chosen([(next(group)[0], str(number)) for number, group in groups] or [(0, "0")])

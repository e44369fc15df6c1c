# SPDX-License-Identifier: LGPL-2.1-or-later
"""The processors of this machine, as a library of D: their chips, and their nodes of memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from gilk.engines.dtrace import halves
from gilk.targets import topology


def library() -> str:
    """Inlines by the number of a processor, as it is now."""
    chips: Mapping[int, int] = {}
    nodes: Mapping[int, int] = {}
    with suppress(OSError, ValueError):  # a machine without one of these files has one chip, and one node
        chips, nodes = topology.chips(), topology.nodes()
    return f"inline int processor_chip[int N] = {chosen(chips)};\ninline int processor_node[int N] = {chosen(nodes)};\n"


def chosen(known: Mapping[int, int]) -> str:
    """An expression of D with the number that belongs to N: neighbours have the same, mostly."""
    groups = groupby(sorted(known.items()), lambda row: row[1])
    return halves.chosen([(next(group)[0], str(number)) for number, group in groups] or [(0, "0")])
